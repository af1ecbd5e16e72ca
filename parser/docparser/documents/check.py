# SPDX-License-Identifier: Apache-2.0
"""Whether files can be read, before a service starts: python -m docparser.documents.check FORMAT=PATH ...

Prints {path: pages} as JSON; ends with status 2 and one line on stderr at the first file that cannot be read. Pictures
are decoded to their end, the pages of PDFs are counted.
"""

from __future__ import annotations

import json
import sys

from docparser.documents.limits import DocumentLimits
from docparser.documents.reader import DocumentReader
from docparser.documents.spool import Document
from docparser.errors import ParserError
from docparser.settings import Settings


def main(words: list[str]) -> int:
    reader, pages = DocumentReader(DocumentLimits.of(Settings())), {}
    try:
        for word in words:
            format, _, path = word.partition("=")
            document = Document(path, format)
            try:
                pages[path] = reader.count_pages(document)
                for index in range(0 if format == "PDF" else pages[path]):
                    reader.read_page(document, index)
            except ParserError as error:
                print(f"{path}: {str(error).removeprefix('file: ')}", file=sys.stderr)
                return 2
    finally:
        reader.close()
    print(json.dumps(pages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
