// SPDX-License-Identifier: Apache-2.0
// node client.js BASE_URL PAGE: a client by openapi-fetch, whose types openapi-typescript made. It compiles only if
// answers and errors are described. Says as JSON what it got.

import { readFile } from "node:fs/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./parser.js";

type Schemas = components["schemas"];
const [baseUrl = "", page = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl });
const file = (await readFile(page)).toString("base64");

const parsed = await client.POST("/layout-parsing", { body: { file, visualize: false } as Schemas["ParseRequest"] });
const text: string | undefined = parsed.data?.result.layoutParsingResults[0]?.markdown.text;
const label: string | undefined = parsed.data?.result.layoutParsingResults[0]?.prunedResult.parsing_res_list[0]?.block_label;

const submitted = await client.POST("/api/v2/ocr/jobs", {
  body: { model: "PaddleOCR-VL", fileUrl: `data:image/png;base64,${file}` },
});
const job: string = submitted.data?.data.jobId ?? "";
const path = { job_id: job };
const followed = await client.GET("/api/v2/ocr/jobs/{job_id}/events", { params: { path }, parseAs: "text" });
const events = [...(followed.data ?? "").matchAll(/^event: page\ndata: (.*)$/gm)].map(
  ([, data]) => JSON.parse(data ?? "") as Schemas["PageEvent"],
);
const state = await client.GET("/api/v2/ocr/jobs/{job_id}", { params: { path } });
const ended: Schemas["Job"]["state"] | undefined = state.data?.data.state;

const refused = await client.POST("/layout-parsing", { body: { file: "!!" } as Schemas["ParseRequest"] });
const error: Schemas["Error"] | undefined = refused.error;
const unknown = await client.GET("/api/v2/ocr/jobs/{job_id}", { params: { path: { job_id: "x" } } });
const said: Schemas["JobError"] | undefined = unknown.error;

console.log(JSON.stringify({ text, label, pages: events.map((event) => event.state), ended, error, code: said?.code }));
