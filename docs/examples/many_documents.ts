// SPDX-License-Identifier: Apache-2.0
// Parse a folder of documents with jobs, many at once, and go on where the last call stopped. Node.js 20.12 or newer:
//
//     npx tsx many_documents.ts scans/ parsed/ http://127.0.0.1:8080
//
// The same as many_documents.py beside it, which says more: bounded, idempotent, retrying. With LISTEN=9000 and
// CALLBACK_SECRET the service says when a job has ended (on its side: PARSER_CALLBACK_HOSTS=127.0.0.1:9000,
// PARSER_CALLBACK_NETWORKS=127.0.0.0/8, PARSER_CALLBACK_SECRETS). PARSER_API_KEY is the key, where one is asked for.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { access, mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { basename, dirname, join, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const JOBS = "/api/v2/ocr/jobs";
const COME_AGAIN = new Set([429, 502, 503, 504, 507]);
const PATIENCE_MS = 3600_000; // for a service that is away, or takes nothing
const DOCUMENT = /\.(pdf|png|jpe?g|jpe|jfif|tiff?|bmp|webp|gif|jp2|j2k|jpx|avif|p[pgbn]m)$/i;
const AT_ONCE = 50; // one request asks for 100 jobs at most
const { PARSER_API_KEY: key, CALLBACK_SECRET: secret, LISTEN: port } = process.env;
const [folder, out, url = "http://127.0.0.1:8080"] = process.argv.slice(2);
const callbackUrl = port && `http://127.0.0.1:${port}`;

interface Job {
  jobId: string;
  state: "pending" | "running" | "done" | "failed";
  errorMsg?: string;
  docparser: { cancelled: boolean; pages: { queued: number; running: number; done: number; failed: number } };
}

/** The service will not take this document, however often it is sent. */
class Refused extends Error {}

/** The service takes nothing, so the whole call ends. */
class Away extends Error {}

/** Send until there is an answer that stays. Throws Refused if it is an error, and Away if none is. */
async function ask(method: string, path: string, body?: FormData, more: Record<string, string> = {}): Promise<Response> {
  const headers = key ? { ...more, Authorization: `Bearer ${key}` } : more;
  const deadline = Date.now() + PATIENCE_MS;
  for (let pause = 1; ; pause = Math.min(2 * pause, 60)) {
    const signal = AbortSignal.timeout(120_000);
    const answer = await fetch(url + path, { method, body, headers, signal }).catch((error: Error) => error);
    if (answer instanceof Response && answer.ok) return answer;
    const trouble = answer instanceof Response ? `${answer.status} ${await answer.text()}` : String(answer);
    if (answer instanceof Response) {
      if (!COME_AGAIN.has(answer.status)) throw new Refused(trouble);
      pause = Number(answer.headers.get("Retry-After")) || pause;
    }
    const again = Date.now() + 1000 * pause; // in 31 days, if a quota is used up
    if (again > deadline) throw new Away(`the service takes nothing: ${trouble}; call again later`);
    await sleep(1000 * pause * (1 + Math.random() / 2)); // not all at the same moment
  }
}

const waiting = new Map<string, (job: Job) => void>();
let news = (): void => undefined; // wakes `look`

/** The id of the document's job. The same file gets the job that it got before. */
async function submit(document: string): Promise<string> {
  const content = await readFile(document);
  const body = new FormData();
  body.set("model", "PaddleOCR-VL");
  if (callbackUrl) body.set("callbackUrl", callbackUrl);
  body.set("file", new Blob([content]), basename(document));
  const digest = createHash("sha256").update(`${resolve(document)} ${callbackUrl}\n`).update(content).digest("hex");
  const answer = await ask("POST", JOBS, body, { "Idempotency-Key": digest });
  return (await answer.json()).data.jobId;
}

function removed(jobId: string): Job {
  const docparser = { cancelled: true, pages: { queued: 0, running: 0, done: 0, failed: 0 } };
  return { jobId, state: "failed", errorMsg: "its job was removed; call again", docparser };
}

/** The job's state once it has ended. */
function ended(jobId: string): Promise<Job> {
  const job = new Promise<Job>((found) => waiting.set(jobId, found));
  news(); // it may have ended in an earlier call
  return job;
}

/** Whether something of the job failed that may be tried again. */
function failed({ state, docparser: { cancelled, pages } }: Job): boolean {
  return (state === "failed" || pages.failed > 0) && !cancelled;
}

/** Ask for the jobs again and again, at once when there is news. */
async function look(working: () => boolean): Promise<void> {
  while (working()) {
    const told = new Promise<void>((resolve) => (news = resolve));
    // An answer may be older than a retry, so it counts only for those that waited before it was asked for.
    const ids = [...waiting.keys()];
    if (ids.length) {
      const query = new URLSearchParams([["limit", "100"], ...ids.map((id) => ["jobId", id])]);
      const answer = await ask("GET", `${JOBS}?${query}`);
      const jobs: Job[] = (await answer.json()).data.jobs;
      for (const id of ids) {
        const job = jobs.find(({ jobId }) => jobId === id) ?? removed(id);
        if (job.state !== "done" && job.state !== "failed") continue;
        waiting.get(id)?.(job);
        waiting.delete(id);
      }
    }
    const stop = new AbortController();
    await Promise.race([told, sleep(port ? 60_000 : 2_000, undefined, stop).catch(() => undefined)]);
    stop.abort();
  }
}

/** Parse one document and write its Markdown; tell whether all of its pages are there. */
async function parse(document: string, target: string): Promise<boolean> {
  try {
    const id = await submit(document);
    let job = await ended(id);
    if (failed(job)) {
      await ask("POST", `${JOBS}/${id}/retry`);
      job = await ended(id);
    }
    if (job.state === "failed") throw new Refused(job.errorMsg ?? "it was cancelled");
    if (job.docparser.pages.failed) throw new Refused(`${job.docparser.pages.failed} pages could not be read`);
    const answer = await ask("GET", `${JOBS}/${id}/result?format=md`);
    await mkdir(dirname(target), { recursive: true });
    const part = join(dirname(target), `.${id}.part`);
    await writeFile(part, Buffer.from(await answer.arrayBuffer()));
    await rename(part, target);
  } catch (error) {
    if (error instanceof Away) throw error;
    console.log(`${document}: ${(error as Error).message}`); // refused, or a file that cannot be read or written
    return false;
  }
  console.log(`${document}: ${target}`);
  return true;
}

/** Hear signed callbacks (Standard Webhooks 1.0). */
function listen(port: string, secret: string): void {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const head = (name: string): string => String(request.headers[`webhook-${name}`] ?? "");
    const signed = Buffer.concat([Buffer.from(`${head("id")}.${head("timestamp")}.`), ...chunks]);
    const hmac = createHmac("sha256", Buffer.from(secret.replace("whsec_", ""), "base64")).update(signed);
    const right = Buffer.from(`v1,${hmac.digest("base64")}`);
    const signatures = head("signature").split(" ").map((each) => Buffer.from(each));
    const known = signatures.some((each) => each.length === right.length && timingSafeEqual(each, right));
    const good = known && Math.abs(Date.now() / 1000 - Number(head("timestamp"))) < 300;
    response.writeHead(good ? 204 : 401).end();
    if (good) news();
  });
  server.listen(Number(port)).unref();
}

const entries = await readdir(folder, { recursive: true, withFileTypes: true });
const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith("."));
const found = files.filter(({ name }) => DOCUMENT.test(name));
const documents = found.map((entry) => join(entry.parentPath, entry.name)).sort();
const targets = documents.map((document): [string, string] => [document, join(out, `${relative(folder, document)}.md`)]);
const written = await Promise.all(targets.map(([, target]) => access(target).then(() => true, () => false)));
const queue = targets.filter((_, index) => !written[index]);
const left = queue.length;
if (port && secret) listen(port, secret);

let parsed = 0;
async function work(): Promise<void> {
  for (let next = queue.shift(); next; next = queue.shift()) if (await parse(...next)) parsed += 1;
}
let working = true;
const workers = Promise.all(Array.from({ length: AT_ONCE }, work)).finally(() => ((working = false), news()));
await Promise.all([workers, look(() => working)]);
const before = documents.length - left;
console.log(`${documents.length} documents: ${before} there before, ${parsed} parsed; ${files.length} files in all`);
process.exitCode = Number(parsed < left);
