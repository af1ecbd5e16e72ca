// SPDX-License-Identifier: Apache-2.0
// node lint.mjs FILE: what the recommended rules of Spectral and Redocly find in an OpenAPI description, as JSON.

import { readFile } from "node:fs/promises";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import spectral from "@stoplight/spectral-core";
import rulesets from "@stoplight/spectral-rulesets";

const file = process.argv[2];
const source = await readFile(file, "utf8");

const judge = new spectral.Spectral();
judge.setRuleset(new spectral.Ruleset({ extends: [[rulesets.oas, "recommended"]] }));
const bySpectral = (await judge.run(JSON.parse(source))).map(
  ({ code, message, path, severity }) => ({ code, message, path: path.join("/"), error: severity === 0 }),
);

// The hosted API, whose clients must work here, has /jobs/batch/{id} beside /jobs/{id}/events.
const config = await createConfig({ extends: ["recommended"], rules: { "no-ambiguous-paths": "off" } });
const byRedocly = (await lintFromString({ source, absoluteRef: file, config })).map(
  ({ ruleId, message, location, severity }) => ({
    code: ruleId,
    message,
    path: location[0]?.pointer ?? "",
    error: severity === "error",
  }),
);
console.log(JSON.stringify({ spectral: bySpectral, redocly: byRedocly }));
