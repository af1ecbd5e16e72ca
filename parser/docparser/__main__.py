# SPDX-License-Identifier: Apache-2.0
"""``python -m docparser``. Worker processes import this module too, so it must import nothing by itself."""

if __name__ == "__main__":
    import sys

    from docparser.server import main

    sys.exit(main())
