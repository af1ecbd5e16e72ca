// SPDX-License-Identifier: Apache-2.0
// A ZIP archive of files as they are (APPNOTE.TXT 6.3.10, 4.3): names in UTF-8, real dates, nothing compressed, since
// most of what is in it is compressed already.

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});
const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const VERSION = 20;
const UTF8 = 0x0800;

/** CRC-32 of `bytes`. */
export function crc32(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

/** Numbers of the given widths in bytes, little-endian. */
function packed(...fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [width]) => sum + width, 0)));
  let at = 0;
  for (const [width, value] of fields) {
    if (width === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += width;
  }
  return new Uint8Array(view.buffer);
}

/** MS-DOS time and date, of the local clock, in steps of two seconds. */
function dos(date) {
  const time = (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1);
  const years = Math.max(date.getFullYear() - 1980, 0);
  return [[2, time], [2, (years << 9) | ((date.getMonth() + 1) << 5) | date.getDate()]];
}

export class Zip {
  size = 0;
  count = 0;
  #parts = [];
  #central = [];
  #names = new Set();

  /** Adds a blob under `name`, or under `name (2)` and so on if there is one already. */
  async add(name, blob, date) {
    const encoded = new TextEncoder().encode(this.#free(name.replaceAll(/[/\\]/g, "_")));
    const checked = crc32(new Uint8Array(await blob.arrayBuffer()));
    const sizes = [[4, blob.size], [4, blob.size], [2, encoded.length], [2, 0]]; // stored: packed as large as it is
    const common = [[2, VERSION], [2, UTF8], [2, 0], ...dos(date), [4, checked], ...sizes];
    this.#central.push(packed([4, CENTRAL], [2, VERSION], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, this.size]), encoded);
    this.#put(packed([4, LOCAL], ...common), encoded);
    this.#parts.push(blob);
    this.size += blob.size;
    this.count++;
  }

  /** The archive. Nothing can be added any more. */
  blob() {
    const start = this.size;
    this.#put(...this.#central);
    const place = [[4, this.size - start], [4, start]];
    this.#put(packed([4, END], [2, 0], [2, 0], [2, this.count], [2, this.count], ...place, [2, 0]));
    return new Blob(this.#parts, { type: "application/zip" });
  }

  #put(...pieces) {
    this.#parts.push(...pieces);
    for (const { length } of pieces) this.size += length;
  }

  #free(name) {
    const dot = name.lastIndexOf(".");
    const [stem, suffix] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
    let free = name;
    for (let number = 2; this.#names.has(free.toLowerCase()); number++) free = `${stem} (${number})${suffix}`;
    this.#names.add(free.toLowerCase());
    return free;
  }
}
