// SPDX-License-Identifier: Apache-2.0
// The files of what was dropped or chosen: those of folders too, without what systems leave in folders. A file of a
// folder has its place there as `folder`.

const LEFT_BY_SYSTEMS = /^(\..*|Thumbs\.db|desktop\.ini)$/i;

/** `{files, lost}` of what was dropped, `lost` being the names of what cannot be read. `transfer` can be asked only while
 * it is dropped, so that is done before anything is awaited. */
export async function filesOf(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return { files: [...transfer.files], lost: [] };
  const lost = [];
  return { files: (await Promise.all(entries.map((entry) => inside(entry, lost)))).flat(), lost };
}

/** The files of a folder that was chosen. */
export const filesOfFolder = (files) =>
  [...files]
    .filter(({ webkitRelativePath: path }) => !path.split("/").some((name) => LEFT_BY_SYSTEMS.test(name)))
    .map((file) => placed(file, file.webkitRelativePath));

const placed = (file, path) => Object.assign(file, { folder: path.split("/").slice(0, -1).filter(Boolean).join("/") });

/** The files of an entry. What cannot be read costs none of the others. */
async function inside(entry, lost) {
  if (LEFT_BY_SYSTEMS.test(entry.name)) return [];
  try {
    if (entry.isFile) return [placed(await new Promise((done, failed) => entry.file(done, failed)), entry.fullPath)];
    const reader = entry.createReader();
    const found = [];
    // A browser gives a hundred at a time.
    for (let some; (some = await new Promise((done, failed) => reader.readEntries(done, failed))).length; ) found.push(...some);
    found.sort((one, other) => (one.name < other.name ? -1 : 1));
    return (await Promise.all(found.map((one) => inside(one, lost)))).flat();
  } catch {
    lost.push(entry.name);
    return [];
  }
}
