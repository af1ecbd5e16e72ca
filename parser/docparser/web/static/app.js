// SPDX-License-Identifier: Apache-2.0
// The page as a whole: takes files, lists documents at the side, shows one of them in the viewer.

import * as api from "./api.js";
import { Documents } from "./documents.js";
import * as downloads from "./downloads.js";
import { filesOf, filesOfFolder } from "./dropped.js";
import { failure, Problems, refusal } from "./failures.js";
import * as key from "./key.js";
import * as languages from "./languages.js";
import * as many from "./many.js";
import * as news from "./news.js";
import { Sidebar } from "./sidebar.js";
import * as theme from "./theme.js";
import { Viewer } from "./viewer.js";
import * as welcome from "./welcome.js";

const by = (id) => document.getElementById(id);
const CAPACITY_MS = 5000;
const documents = new Documents();
const viewer = new Viewer((file) => choose(takePage(file)), (error) => trouble(error));
const sidebar = new Sidebar(choose);
const problems = new Problems(by("problem"));

documents.addEventListener("change", ({ detail: entry }) => {
  if (entry) {
    news.follow(entry);
    sidebar.update(entry);
    if (entry === viewer.entry) follow(entry);
  } else if (viewer.entry && !documents.list.includes(viewer.entry)) choose(documents.list[0] ?? null);
  else if (!viewer.entry && documents.list.length && !documents.unsent) choose(documents.list[0]);
  else refresh();
});
documents.addEventListener("trouble", ({ detail }) => trouble(detail));
documents.addEventListener("gone", ({ detail: { name } }) => problems.add({ about: name, says: ["gone"], quiet: true }));
documents.addEventListener("unsent", ({ detail: { name, upload } }) => problems.add(refusal(upload.error, name)));

function refresh() {
  by("layout").dataset.empty = String(!documents.list.length);
  by("skip").hash = documents.list.length ? "viewer" : "files";
  sidebar.show(documents.list, viewer.entry);
}

function choose(entry) {
  viewer.open(entry);
  documents.read(entry);
  refresh();
}

/** The document on the screen has changed; it may just have got the job that there is news of. */
function follow(entry) {
  if (document.visibilityState === "visible") documents.read(entry);
  viewer.update();
}

const trouble = (error) => problems.add(failure(error));

/** Sends files. The first is shown if nothing is; nobody is taken away from what they read. */
function take(files, pageRanges = by("pages").value.trim()) {
  problems.clear();
  key.wanted();
  if (!files.length) return null;
  const [first] = documents.add(files, {
    pageRanges,
    options: {
      visualize: true, places: "words", restructurePages: by("join").checked, useChartRecognition: by("charts").checked || null,
    },
  });
  if (!viewer.entry) choose(first);
  return first;
}

/** Sends a picture of one page. The range of pages that stands in the form was meant for a document. */
const takePage = (file) => take([file], "");

by("files").onchange = (event) => {
  take([...event.target.files]);
  event.target.value = "";
};
by("folder").onchange = (event) => {
  take(filesOfFolder(event.target.files));
  event.target.value = "";
};
by("choosefolder").onclick = () => by("folder").click();
by("drop").onsubmit = (event) => event.preventDefault();

// Files can be dropped anywhere in the window.
let depth = 0;
const curtain = (shown) => (by("curtain").dataset.shown = String(shown));
const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
addEventListener("dragenter", (event) => carriesFiles(event) && (depth++, curtain(true)));
addEventListener("dragleave", (event) => carriesFiles(event) && (depth--, curtain(depth > 0)));
addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
addEventListener("drop", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  depth = 0;
  curtain(false);
  filesOf(event.dataTransfer).then(take).catch(trouble);
});
addEventListener("paste", ({ clipboardData }) => clipboardData.files.length && take([...clipboardData.files]));
// A tab that nobody sees has no stream; when it is seen again, it catches up.
document.addEventListener("visibilitychange", () => {
  const seen = document.visibilityState === "visible";
  documents.read(seen ? viewer.entry : null, seen);
});
for (const moment of ["focus", "blur"]) addEventListener(moment, () => documents.refocus());
addEventListener("beforeunload", (event) => documents.unsent && event.preventDefault());

/** A click handler whose errors are shown to the user. */
function onClick(id, action) {
  by(id).onclick = () => {
    problems.clear();
    key.wanted();
    action(viewer.entry).catch(trouble);
  };
}

onClick("cancel", (entry) => documents.cancel(entry));
onClick("retry", (entry) => many.again(entry, documents));
onClick("remove", async (entry) => {
  await many.drop(entry, documents);
  (viewer.entry ? by("viewer") : by("files")).focus(); // the button may be gone
});
const onTrouble = (one) => problems.add(one);
downloads.connect(by("downloads"), () => viewer.entry, trouble, (entry) => many.download([entry], onTrouble));
many.connect(sidebar, documents, onTrouble);
theme.connect(by("theme"));
languages.connect(by("language"));

/** Asks again and again; for a key only the first time. */
async function capacity(quietly = true) {
  if (document.visibilityState === "visible" && !key.open()) {
    try {
      const { pages, waitsFor } = await api.capacity(quietly);
      const count = pages.queued + pages.running;
      if (waitsFor) languages.say(by("capacity"), "capacity.waits");
      else if (count) languages.say(by("capacity"), "capacity.busy", { count });
      else languages.say(by("capacity"), "capacity.ready");
      by("capacity").title = waitsFor ?? "";
    } catch (error) {
      languages.say(by("capacity"), ...failure(error).says);
      by("capacity").title = error.message;
    }
  }
  setTimeout(capacity, CAPACITY_MS);
}

refresh();
documents.restore();
// Only after the first answer it is known whether there is a key.
const greet = async () => viewer.keep((await welcome.connect(takePage, trouble)).jobKeepHours);
capacity(false).then(() => Promise.all([greet(), documents.fetch()])).catch(trouble);
