// SPDX-License-Identifier: Apache-2.0
// The page as a whole: takes files, lists documents at the side, shows one of them in the viewer.

import { Actions } from "./actions.js";
import * as api from "./api.js";
import { Documents } from "./documents.js";
import * as downloads from "./downloads.js";
import { filesOf, filesOfFolder } from "./dropped.js";
import { failure, Problems, refusal, showIn, unreadable, waiting } from "./failures.js";
import * as key from "./key.js";
import * as languages from "./languages.js";
import * as many from "./many.js";
import * as news from "./news.js";
import { rangesOf } from "./ranges.js";
import { Remembered } from "./remembered.js";
import { Sidebar } from "./sidebar.js";
import * as theme from "./theme.js";
import { Viewer } from "./viewer.js";
import * as welcome from "./welcome.js";

const by = (id) => document.getElementById(id);
const CAPACITY_MS = 5000;
const NARROW = matchMedia("(max-width: 860px)");
const TEXT_FIELD = "input:not([type=file], [type=checkbox])";
const documents = new Documents();
const viewer = new Viewer((file) => choose(takePage(file)), (error) => trouble(error));
const sidebar = new Sidebar((entry) => {
  choose(entry);
  if (NARROW.matches) by("viewer").scrollIntoView(); // it stands below the list there
});
const problems = new Problems(by("problem"));
const actions = new Actions(documents, (one) => problems.add(one));
let held = null; // what is said of files that wait

// What this tab read when it was left, `JOB PAGE`: it is read on, as soon as it is known, unless something else is chosen.
const left = new Remembered("read", "sessionStorage");
let [job, page] = left.get().split(" ");
addEventListener("pagehide", () => {
  const id = viewer.entry?.id;
  if (id) left.set(`${id} ${id === job ? page : viewer.number}`);
});

documents.addEventListener("change", ({ detail: entry }) => {
  tellHeld();
  if (entry) {
    news.follow(entry);
    sidebar.update(entry);
    if (entry === viewer.entry) follow(entry);
    return;
  }
  const before = documents.list.find(({ id }) => id === job);
  if (viewer.entry && !documents.list.includes(viewer.entry)) choose(documents.list[0] ?? null);
  else if (before && viewer.entry !== before) show(before);
  else if (!viewer.entry && documents.list.length && !documents.unsent) show(documents.list[0]);
  else refresh();
});
documents.addEventListener("trouble", ({ detail }) => trouble(detail));
documents.addEventListener("gone", ({ detail }) => {
  for (const { name } of detail) problems.add({ about: name, says: ["gone"], quiet: true });
});
documents.addEventListener("refused", ({ detail: { document, error } }) => problems.add(refusal(error, document.name)));
documents.addEventListener("unkept", () => problems.add({ says: ["unkept"] }));

function refresh() {
  by("layout").dataset.empty = String(!documents.list.length);
  by("skip").hash = documents.list.length ? "viewer" : "files";
  sidebar.show(documents.list, viewer.entry);
}

/** Says why files wait, and how many. */
function tellHeld() {
  const now = documents.held;
  if (held?.error === now?.error && held?.count === now?.count) return;
  if (now && !held) news.tell(...waiting(now).says);
  held = now;
  showIn(by("held"), now ? [waiting(now)] : []);
}

function choose(entry) {
  job = "";
  show(entry);
}

function show(entry) {
  viewer.open(entry);
  documents.read(entry);
  refresh();
}

/** The document on the screen has changed; it may just have got the job that there is news of. */
function follow(entry) {
  if (document.visibilityState === "visible") documents.read(entry);
  viewer.update();
  if (entry.id !== job || !entry.pages.has(Number(page))) return;
  job = "";
  viewer.go(Number(page));
}

const trouble = (error) => problems.add(failure(error));

/** Sends the files that were chosen, and of each the pages that the form names: of these files alone. */
function take(files) {
  problems.clear();
  if (!files.length) return;
  const pages = by("pages");
  const ranges = rangesOf(pages.value);
  if (ranges === null) {
    problems.add({ about: pages.value, says: ["options.pages.wrong"], quiet: true });
    by("options").open = true;
    pages.focus();
    return;
  }
  pages.value = "";
  send(files, ranges);
}

/** The first is shown if nothing is; nobody is taken away from what they read. */
function send(files, pageRanges) {
  key.wanted();
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
function takePage(file) {
  problems.clear();
  return send([file], "");
}

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
  filesOf(event.dataTransfer).then(({ files, lost }) => {
    take(files);
    for (const name of lost) problems.add(unreadable(name));
  }).catch(trouble);
});
// What is copied in a spreadsheet has a picture beside its text; in a field, its text is what is wanted.
addEventListener("paste", ({ target, clipboardData }) => {
  if (target.closest?.(TEXT_FIELD) && clipboardData.types.includes("text/plain")) return;
  if (clipboardData.files.length) take([...clipboardData.files]);
});
// A tab that nobody sees has no stream; when it is seen again, it catches up.
document.addEventListener("visibilitychange", () => {
  const seen = document.visibilityState === "visible";
  documents.read(seen ? viewer.entry : null, seen);
});
for (const moment of ["focus", "blur"]) addEventListener(moment, () => documents.refocus());
addEventListener("beforeunload", (event) => documents.unsent && event.preventDefault());

/** Buttons for the document on the screen. */
function onClick(id, act) {
  by(id).onclick = () => {
    problems.clear();
    key.wanted();
    act([viewer.entry]);
  };
}

onClick("cancel", (entries) => actions.cancel(entries));
onClick("retry", (entries) => actions.again(entries));
onClick("remove", async (entries) => {
  if (!(await many.agreed(1))) return;
  await actions.remove(entries);
  (viewer.entry ? by("viewer") : by("files")).focus(); // the button may be gone
});
downloads.connect(by("downloads"), () => viewer.entry, trouble, (entry) => actions.download([entry]));
many.connect(sidebar, actions);
theme.connect(by("theme"));
languages.connect(by("language"));
key.connect((needed) => {
  documents.resend();
  if (needed) return;
  if (!documents.unsent) return location.reload();
  begin(); // a reload would lose the files that wait
  documents.read(viewer.entry);
});

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
      if (!begun) begin();
    } catch (error) {
      languages.say(by("capacity"), ...failure(error).says);
      by("capacity").title = error.message;
    }
  }
  setTimeout(capacity, CAPACITY_MS);
}

let begun = false;

/** What is asked once, after the first answer: only then it is known whether there is a key. */
async function begin() {
  begun = true;
  try {
    const [limits] = await Promise.all([welcome.connect(takePage, trouble), documents.fetch()]);
    viewer.keep(limits.jobKeepHours);
    documents.largest = limits.bodyMib * 2 ** 20;
  } catch (error) {
    begun = api.refuses(error); // a service that is away is asked again
    if (begun) trouble(error);
  }
}

refresh();
documents.restore();
capacity(false);
