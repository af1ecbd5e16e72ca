# SPDX-License-Identifier: Apache-2.0
"""``python -m docparser.api_keys``: makes, lists, rotates and expires API keys. See ``clients.command``."""

if __name__ == "__main__":
    import sys

    from docparser.clients.command import main

    sys.exit(main())
