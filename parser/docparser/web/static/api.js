// SPDX-License-Identifier: Apache-2.0
// The parser's HTTP API. Addresses are relative to the page, so that it works behind a proxy's path, too.

import { own, Remembered } from "./remembered.js";

const JOBS = "api/v2/ocr/jobs";
const RETRY_MS = [500, 1000, 2000, 5000];
const ATTEMPTS = 3;
const ROUND_MS = 2000; // between two questions for news
const AT_ONCE = 100; // jobs in one answer
const LATER = [408, 425, 429]; // of the answers 4xx, those that are others another time

/** `status` of the answer, 0 if there was none; `message` are the service's words, which may be empty. */
export class ApiError extends Error {
  /** `own`: the service gave the answer, and no proxy in front of it; `waitMs`: how long it asks to wait, or null. */
  constructor(status, message = "", own = false, waitMs = null) {
    super(message);
    Object.assign(this, { status, own, waitMs });
  }

  /** Whether the same will be answered another time. */
  get refused() {
    return this.status >= 400 && this.status < 500 && !LATER.includes(this.status);
  }
}

/** What the service itself refuses. */
export const refuses = (error) => error instanceof ApiError && error.own && error.refused;

export const key = new Remembered("key", "sessionStorage");

let askForKey = async () => false;

/** `ask(quietly)` resolves to true when the user gave another key. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

/** Resolves after so many milliseconds, or when the signal comes. */
const pause = (ms, signal) => new Promise((done) => {
  const end = () => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
    done();
  };
  const timer = setTimeout(end, ms);
  signal?.addEventListener("abort", end);
});
const retryPause = (failures, signal) => pause(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)], signal);

/** The answer; asks again when the connection breaks, as it does when a laptop changes its network. Any request may come twice. */
async function reach(path, options) {
  const { signal, sent } = options;
  for (let failures = 0; ; failures++) {
    signal?.throwIfAborted();
    try {
      return await (sent ? upload(path, options) : fetch(path, options));
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (failures === ATTEMPTS - 1) throw new ApiError(0);
    }
    await retryPause(failures, signal);
  }
}

/** As `fetch`, which does not tell how much of a body is sent: `sent(share)` hears of it, from 0 to 1. */
function upload(path, { method, headers, body, sent, signal }) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open(method, path);
    for (const [name, value] of headers) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => sent(total ? loaded / total : 0);
    request.upload.onload = () => sent(1);
    request.onload = () => {
      const asked = request.getResponseHeader("Retry-After");
      done(new Response(request.response, { status: request.status, headers: asked ? { "Retry-After": asked } : {} }));
    };
    request.onerror = () => failed(new TypeError("the connection broke"));
    request.onabort = () => failed(new DOMException("", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(body);
  });
}

async function call(path, options = {}) {
  for (;;) {
    const headers = new Headers(options.headers);
    const used = key.get();
    if (used) headers.set("Authorization", `Bearer ${used}`);
    const response = await reach(path, { ...options, headers });
    if (response.ok) return response;
    if (response.status === 401 && (key.get() !== used || (await askForKey(options.quietly)))) continue;
    throw await failureOf(response);
  }
}

/** A proxy without a service behind it may say that nothing is there, which is nothing that the service says. */
async function failureOf(response) {
  const { status } = response;
  const body = await response.json().catch(() => null);
  const own = (body?.code ?? body?.errorCode) === status;
  const seconds = Number(response.headers.get("Retry-After"));
  return new ApiError(status === 404 && !own ? 0 : status, body?.msg ?? body?.errorMsg, own, seconds > 0 ? 1000 * seconds : null);
}

/** What is in an answer; what is no JSON comes from a proxy, or has broken off. */
async function json(path, options) {
  const response = await call(path, options);
  try {
    return await response.json();
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(0);
  }
}

const data = async (path, options) => (await json(path, options)).data;

/** Sends a file; resolves to the job's id. `sent(share)` hears how much has been sent. A retry with the same
 * `idempotencyKey` makes no second job. */
export async function submit(file, { options, pageRanges, idempotencyKey }, sent, signal) {
  const form = new FormData();
  form.append("model", "PaddleOCR-VL");
  form.append("optionalPayload", JSON.stringify(options));
  if (pageRanges) form.append("pageRanges", pageRanges);
  form.append("file", file, file.name);
  const headers = { "Idempotency-Key": idempotencyKey };
  return (await data(JOBS, { method: "POST", body: form, headers, sent, signal })).jobId;
}

/** Yields the jobs of this key, newest first. Without keys there is no list. */
export async function* list() {
  for (let cursor = ""; cursor !== null; ) {
    const { jobs, nextCursor } = await data(`${JOBS}?limit=200${cursor && `&cursor=${cursor}`}`);
    yield* jobs;
    cursor = nextCursor;
  }
}

/** The jobs of these ids that there are, in few requests. */
export async function states(ids) {
  const found = [];
  for (let at = 0; at < ids.length; at += AT_ONCE) {
    const named = new URLSearchParams([["limit", AT_ONCE], ...ids.slice(at, at + AT_ONCE).map((id) => ["jobId", id])]);
    found.push(...(await data(`${JOBS}?${named}`)).jobs);
  }
  return found;
}

export const state = (id) => data(`${JOBS}/${id}`);
export const cancel = (id) => data(`${JOBS}/${id}`, { method: "DELETE" });
export const remove = (id) => data(`${JOBS}/${id}?purge=true`, { method: "DELETE" });
export const retry = (id) => data(`${JOBS}/${id}/retry`, { method: "POST" });
export const capacity = async (quietly) => (await json("capacity", { quietly })).result;
export const capabilities = async () => (await json("capabilities")).result;

/** A sample page, as a file. */
export async function sample() {
  return new File([await (await call("ui/sample.png")).blob()], "sample.png", { type: "image/png" });
}

/** One page: `{entry, report, models}`. */
export async function page(id, number, signal) {
  const { result } = await json(`${JOBS}/${id}/pages/${number}`, { signal });
  const [report] = result.docparser.pages;
  return { entry: result.layoutParsingResults[0], report, models: result.docparser.models };
}

/** A page as it came, `{blob, pages}`; `pages`: of the whole document. */
export async function original(id, number, signal) {
  const response = await call(`${JOBS}/${id}/originals/${number}`, { signal });
  return { blob: await response.blob(), pages: Number(response.headers.get("Document-Pages")) };
}

/** The result as a file. */
export async function download(id, format, signal) {
  const response = await call(`${JOBS}/${id}/result?format=${format}`, { signal });
  const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") ?? "");
  return { blob: await response.blob(), name: name ? decodeURIComponent(name[1]) : `result.${format}` };
}

/** All pages that have been read: `[{number, entry, report}]`. */
export async function lines(id) {
  const { resultUrl, docparser } = await state(id);
  const lines = (await (await call(picture(resultUrl?.jsonUrl ?? docparser.partialUrl))).text()).trim().split("\n");
  return lines.map((line) => {
    const { layoutParsingResults: [entry], docparser: { pages: [report] } } = JSON.parse(line).result;
    return { number: report.page, entry, report };
  });
}

/** A picture's or result's address, relative to this page, whatever host the service named in it. */
export function picture(url) {
  const at = url.indexOf("api/v2/ocr/results/");
  return at < 0 ? "" : new URL(url.slice(at), document.baseURI).href;
}

const oneAtATime = (act) => (navigator.locks ? navigator.locks.request(own("news"), act) : act());

/** Calls `on.page` and `on.job` with each event until the job has ended; connects again after a lost connection. `place.last`
 * is the last event that came. `lasting`: the connection stays; otherwise it is there for what is new, every two seconds,
 * and (where the browser has locks: over https and on this machine) in one tab at a time. */
export async function watch(id, on, signal, place, lasting) {
  let ended = false;
  for (let failures = 0; !ended && !signal.aborted; ) {
    const hear = async () => {
      if (signal.aborted) return;
      const headers = place.last ? { "Last-Event-ID": place.last } : {};
      const response = await call(`${JOBS}/${id}/events`, { signal, headers });
      for await (const event of events(response.body)) {
        failures = 0;
        place.last = event.id || place.last;
        on[event.name]?.(event.data);
        if (event.name !== "job") continue;
        ended = event.data.state === "done" || event.data.state === "failed";
        if (!lasting) return;
      }
    };
    try {
      await (lasting ? hear() : oneAtATime(hear));
    } catch (error) {
      if (signal.aborted) return;
      if (refuses(error)) throw error;
    }
    if (!ended) await (lasting ? retryPause(failures++, signal) : pause(ROUND_MS, signal));
  }
}

/** The events of a stream. It is closed when nobody wants more of them. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let rest = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const fields = Object.fromEntries(block.split("\n").filter((line) => !line.startsWith(":")).map((line) => {
          const colon = line.indexOf(": ");
          return [line.slice(0, colon), line.slice(colon + 2)];
        }));
        if (fields.data) yield { id: fields.id, name: fields.event, data: JSON.parse(fields.data) };
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // a broken stream is closed
  }
}
