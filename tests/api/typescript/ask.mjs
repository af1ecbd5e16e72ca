// SPDX-License-Identifier: Apache-2.0
// node ask.mjs BASE_URL TOKEN FILE FOLDER: reads FILE with the SDK, saves its pictures in FOLDER, and says as JSON what
// came of it, and which hosts beside loopback it tried to reach. These are refused.

const tried = [];
const reach = globalThis.fetch;
globalThis.fetch = (input, init) => {
  const { hostname } = new URL(input?.url ?? input);
  if (hostname === "127.0.0.1") return reach(input, init);
  tried.push(hostname);
  throw new TypeError(`${hostname} is beyond loopback`);
};

const { Model, PaddleOCRClient } = await import("@paddleocr/api-sdk");
const [baseUrl, token, filePath, folder] = process.argv.slice(2);
const client = new PaddleOCRClient({ baseUrl, token });

/** What a call gives, or the name and the words of its error. */
async function said(call) {
  try {
    return await call();
  } catch (error) {
    return { error: error.name, message: error.message };
  }
}

const document = await said(() => client.parseDocument({ filePath, options: { visualize: true } }));
const saved = document.error ? [] : await said(() => client.saveDocumentParsingResultResources(document, folder));
const lines = await said(() => client.ocr({ filePath, model: Model.PPOCRv5 }));
console.log(JSON.stringify({ document, saved, lines, tried }));
