// SPDX-License-Identifier: Apache-2.0
// The page as a whole: takes files, lists documents at the side, shows one of them in the viewer.

import * as api from "./api.js";
import { Documents } from "./documents.js";
import * as downloads from "./downloads.js";
import { filesOf } from "./dropped.js";
import { failure, showIn } from "./failures.js";
import * as key from "./key.js";
import * as languages from "./languages.js";
import * as news from "./news.js";
import { Sidebar } from "./sidebar.js";
import * as theme from "./theme.js";
import { Viewer } from "./viewer.js";

const by = (id) => document.getElementById(id);
const CAPACITY_MS = 5000;
const documents = new Documents();
const viewer = new Viewer();
const sidebar = new Sidebar(choose);

documents.addEventListener("change", ({ detail }) => {
  if (viewer.entry && !documents.list.includes(viewer.entry)) choose(documents.list[0] ?? null);
  else if (!viewer.entry && documents.list.length) choose(documents.list[0]);
  else if (detail.document && detail.document === viewer.entry) viewer.update();
  if (detail.document) news.follow(detail.document);
  refresh();
});

documents.addEventListener("trouble", ({ detail }) => problem(detail));

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

const problem = (error) => showIn(by("problem"), error ? [failure(error)] : []);

async function take(files) {
  problem(null);
  const settings = {
    pageRanges: by("pages").value.trim(),
    options: { visualize: true, restructurePages: by("join").checked, useChartRecognition: by("charts").checked || null },
  };
  const troubles = [];
  for (const file of files) {
    try {
      await documents.add(file, settings); // the first is shown; nobody is taken away from what they read
    } catch (error) {
      troubles.push(failure(error, file.name));
    }
  }
  showIn(by("problem"), troubles);
}

by("files").onchange = (event) => {
  take([...event.target.files]);
  event.target.value = "";
};
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
  filesOf(event.dataTransfer).then(take).catch(problem);
});
addEventListener("paste", ({ clipboardData }) => clipboardData.files.length && take([...clipboardData.files]));

/** A click handler whose errors are shown to the user. */
function onClick(id, action) {
  by(id).onclick = () => {
    problem(null);
    action(viewer.entry).catch(problem);
  };
}

onClick("cancel", (entry) => api.cancel(entry.id));
onClick("retry", async (entry) => {
  await api.retry(entry.id);
  documents.read(entry, true);
});
onClick("remove", async (entry) => {
  await api.remove(entry.id).catch((error) => {
    if (error.status !== 404) throw error;
  });
  documents.forget(entry);
  (viewer.entry ? by("viewer") : by("files")).focus(); // the button may be gone
});
downloads.connect(by("downloads"), () => viewer.entry, problem);
theme.connect(by("theme"));
languages.connect(by("language"));

async function capacity() {
  if (document.visibilityState === "visible" && !key.open()) {
    try {
      const { pages, waitsFor } = await api.capacity();
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

// Streams are few (documents.js): a tab that nobody sees has none.
document.addEventListener("visibilitychange", () => documents.read(document.visibilityState === "visible" ? viewer.entry : null));

refresh();
documents.restore();
capacity();
