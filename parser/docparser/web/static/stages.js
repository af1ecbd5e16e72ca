// SPDX-License-Identifier: Apache-2.0
// How far a document of the list (`documents.js`) is, as a word and as texts; a text is its key and its values.

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** One word, for a sign, a colour and a filter. */
export function stage({ job, upload }) {
  if (upload) return upload.state;
  if (!job) return "waiting";
  const { pages, cancelled, waitsFor } = job.docparser;
  if (cancelled) return "cancelled";
  if (job.state === "failed") return "failed";
  if (job.state === "done") return pages.failed ? "partly" : "done";
  return waitsFor || !job.extractProgress ? "waiting" : "running";
}

/** Its state. */
export function describe(document) {
  const { job, upload } = document;
  if (upload?.state === "sending") return ["state.sending", { share: Math.floor(100 * upload.share) }];
  if (!job) return [upload || document.file ? "state.waiting" : "state.unknown"];
  const { pages, waitsFor } = job.docparser;
  const count = job.extractProgress?.totalPages;
  switch (stage(document)) {
    case "cancelled":
      return ["state.cancelled"];
    case "failed":
      return ["state.failed"];
    case "done":
      return ["state.done", { count: pages.done }];
    case "partly":
      return ["state.partly", { failed: pages.failed, count }];
  }
  if (waitsFor) return ["state.paused"];
  return count === undefined ? ["state.waiting"] : ["state.progress", { read: pages.done + pages.failed, count }];
}

/** How long it took, or about how long it will take; null where nobody knows. */
export function duration({ job }, now = Date.now()) {
  const { startTime, endTime, totalPages } = job?.extractProgress ?? {};
  if (!startTime) return null;
  const began = Date.parse(startTime);
  if (endTime) return ["time.took", { time: inTime(Date.parse(endTime) - began) }];
  const { done, failed } = job.docparser.pages;
  const read = done + failed;
  const spent = now - began; // by two clocks: where this one is behind, nobody knows
  if (!read || read === totalPages || spent <= 0 || job.docparser.waitsFor) return null;
  return ["time.left", { time: inTime((spent / read) * (totalPages - read)) }];
}

const inTime = (ms) =>
  ms < MINUTE_MS ? ["time.seconds", { count: Math.ceil(ms / 1000) }] : ["time.minutes", { count: Math.round(ms / MINUTE_MS) }];

/** When the service deletes it, which keeps it for so many hours after its end; null: not yet known. */
export function deletion({ job }, keptHours) {
  const end = job?.extractProgress?.endTime;
  return end && keptHours ? ["time.deleted", { moment: new Date(Date.parse(end) + keptHours * HOUR_MS) }] : null;
}

export const ended = ({ job }) => ["done", "failed"].includes(job?.state);

/** How much of it there is, `{read, count}`; null if that is all. */
export function part({ job }) {
  const read = job?.docparser.pages.done;
  const count = job?.extractProgress?.totalPages;
  return read < count ? { read, count } : null;
}

/** Whether the service did not take it, so that it waits to be sent again. */
export const heldUp = ({ upload }) => upload?.state === "waiting" && Boolean(upload.error);

/** Whether something of it failed that can be tried again: pages, or its opening, or their joining. */
export function retriable(document) {
  return ended(document) && !document.job.docparser.cancelled && Boolean(document.job.errorMsg);
}
