// SPDX-License-Identifier: Apache-2.0
// Pages as people write them: `1，3－5`, `1、3 – 5` and `1 3-5` are the service's `1,3-5`.

const PART = /^(\d{1,6})(?:-(?:(\d{1,6})~?)?)?$/;

/** The ranges of pages that `typed` names, as the service reads them; null: it names something else. */
export function rangesOf(typed) {
  const plain = typed.normalize("NFKC").replace(/\s*[-‐-―−]\s*/g, "-"); // signs of full width are others then
  const parts = plain.split(/[\s,、]+/).filter(Boolean);
  const right = parts.every((part) => {
    const [, first, last] = PART.exec(part) ?? [];
    return first > 0 && !(Number(last) < first);
  });
  return right ? parts.join(",") : null;
}
