// SPDX-License-Identifier: Apache-2.0
// A ZIP archive of files as they are, with their dates: most of what is in it is compressed already. fflate writes it.

let fflate;
const load = () => (fflate ??= import("./vendor/fflate/fflate.min.js").then(() => globalThis.fflate));

export class Zip {
  size = 0;
  count = 0;
  #parts = [];
  #names = new Set();
  #archive = null;

  /** Adds a blob to `folder` as `name`, or as `name (2)` and so on if there is one already. */
  async add(name, blob, date, folder = "") {
    const { Zip: Archive, ZipPassThrough: Stored } = await load();
    this.#archive ??= new Archive((error, piece) => this.#parts.push(new Blob([piece]))); // a blob may lie on the disk
    const file = new Stored(this.#free([...folder.split("/").filter((one) => !/^\.*$/.test(one)), name].map((one) => one.replaceAll(/[/\\]/g, "_"))));
    file.mtime = date;
    this.#archive.add(file);
    file.push(new Uint8Array(await blob.arrayBuffer()), true);
    this.size += blob.size;
    this.count++;
  }

  /** The archive. Nothing can be added any more. */
  blob() {
    this.#archive.end();
    return new Blob(this.#parts, { type: "application/zip" });
  }

  #free(path) {
    const name = path.join("/");
    const dot = name.lastIndexOf(".");
    const [stem, suffix] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
    let free = name;
    for (let number = 2; this.#names.has(free.toLowerCase()); number++) free = `${stem} (${number})${suffix}`;
    this.#names.add(free.toLowerCase());
    return free;
  }
}
