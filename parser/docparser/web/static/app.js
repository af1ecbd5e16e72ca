// SPDX-License-Identifier: Apache-2.0
// The page as a whole: takes files, lists documents at the side, shows one of them in the viewer.

import * as api from "./api.js";
import { Documents } from "./documents.js";
import { Sidebar } from "./sidebar.js";
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
  refresh();
});

documents.addEventListener("trouble", ({ detail }) => problem(detail.message));

function refresh() {
  by("layout").dataset.empty = String(!documents.list.length);
  sidebar.show(documents.list, viewer.entry);
}

function choose(entry) {
  viewer.open(entry);
  refresh();
}

function problem(words) {
  by("problem").hidden = !words;
  by("problem").textContent = words;
}

async function take(files) {
  problem("");
  const settings = {
    pageRanges: by("pages").value.trim(),
    options: { visualize: true, restructurePages: by("join").checked, useChartRecognition: by("charts").checked || null },
  };
  const troubles = [];
  for (const file of files) {
    try {
      choose(await documents.add(file, settings));
    } catch (error) {
      troubles.push(`${file.name}: ${error.message}`);
    }
  }
  problem(troubles.join("\n"));
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
  take([...event.dataTransfer.files]);
});

/** A click handler whose errors are shown to the user. */
function onClick(id, action) {
  by(id).onclick = async () => {
    problem("");
    try {
      await action(viewer.entry);
    } catch (error) {
      problem(error.message);
    }
  };
}

onClick("cancel", (entry) => api.cancel(entry.id));
onClick("retry", async (entry) => {
  await api.retry(entry.id);
  documents.follow(entry).catch((error) => problem(error.message));
});
onClick("remove", async (entry) => {
  await api.remove(entry.id).catch((error) => {
    if (error.status !== 404) throw error;
  });
  documents.forget(entry);
});
for (const button of by("downloads").querySelectorAll("button")) {
  button.onclick = async () => {
    by("downloads").open = false;
    try {
      const { blob, name } = await api.download(viewer.entry.id, button.dataset.format);
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (error) {
      problem(error.message);
    }
  };
}
addEventListener("click", (event) => event.target.closest("#downloads") ?? (by("downloads").open = false));
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !by("downloads").open) return;
  by("downloads").open = false;
  by("downloads").firstElementChild.focus();
});

// Colours.
const THEMES = { auto: "Auto", light: "Light", dark: "Dark" };
function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  by("theme").textContent = THEMES[name];
  by("theme").setAttribute("aria-label", `Colours: ${name === "auto" ? "as the system" : name}`);
  localStorage.setItem("docparser.theme", name);
}
theme(localStorage.getItem("docparser.theme") in THEMES ? localStorage.getItem("docparser.theme") : "auto");
by("theme").onclick = () => {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(localStorage.getItem("docparser.theme")) + 1) % names.length]);
};

// The API key, if the service asks for one.
let asking = null;
function ask() {
  by("key").hidden = false;
  return (asking ??= new Promise((done) => {
    const dialog = by("keydialog");
    by("keyvalue").value = "";
    dialog.returnValue = "";
    dialog.onclose = () => {
      asking = null;
      const given = by("keyvalue").value.trim();
      if (given) api.key.set(given);
      done(Boolean(given));
    };
    dialog.showModal();
  }));
}
api.onKeyNeeded(ask);
by("key").onclick = async () => (await ask()) && location.reload();

async function capacity() {
  if (document.visibilityState === "visible" && !asking) {
    try {
      const { pages, waitsFor } = await api.capacity();
      const busy = pages.queued + pages.running;
      by("capacity").textContent = waitsFor ? "The models are not ready yet" : busy ? `${busy} ${busy === 1 ? "page" : "pages"} in work` : "Ready";
      by("capacity").title = waitsFor ?? "";
    } catch (error) {
      by("capacity").textContent = error.status ? error.message : "The service does not answer";
    }
  }
  setTimeout(capacity, CAPACITY_MS);
}

refresh();
documents.restore().catch((error) => problem(error.message));
capacity();
