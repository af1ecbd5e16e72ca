# SPDX-License-Identifier: Apache-2.0
"""Formulas as Word's own (OMML, ISO 29500-1, 22.1), from the MathML that latex2mathml writes.

Only what is drawn alike is translated. For anything else ``omml`` raises Untranslatable: the caller keeps the LaTeX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element, SubElement, register_namespace

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
register_namespace("m", MATH)
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
LARGE = frozenset("∑∏∐∫∬∭∮∯∰⋀⋁⋂⋃⨀⨁⨂⨄⨆")
ENDS_LARGE = frozenset("=<>≤≥≠≈≡,;")  # what a sum or an integral is over ends here
BARS = frozenset("¯‾―")
# The sign as latex2mathml writes it -> the combining character that Word wants.
ACCENTS = dict(zip("^ˆ~˜˙¨→ˇ˘´`", "\u0302\u0302\u0303\u0303\u0307\u0308\u20d7\u030c\u0306\u0301\u0300", strict=True))
STYLES = {"normal": "p", "bold": "b", "italic": "i", "bold-italic": "bi"}  # of MathML and of Word
BRACES = {"⏞": "top", "⏟": "bot"}


class Untranslatable(Exception):
    """The formula has a part that this module does not know."""


def omml(mathml: Element, *, display: bool) -> Element:
    """``m:oMath``, in ``m:oMathPara`` for a formula on a line of its own. Raises Untranslatable."""
    formula = _node("oMath")
    formula.extend(_row(list(mathml)))
    if not display:
        return formula
    paragraph = _node("oMathPara")
    paragraph.append(formula)
    return paragraph


def _row(parts: Sequence[Element]) -> list[Element]:
    parts = _flat(parts)
    if any(_breaks(part) or part.tag == "malignmark" for part in parts):
        return [_lines(parts)]
    return _line(parts)


def _line(parts: Sequence[Element]) -> list[Element]:
    if len(parts) > 1 and _opens(parts[0]):
        closed = parts[-1].get("form") == "postfix"
        return [_fence(_text(parts[0]), parts[1:-1] if closed else parts[1:], _text(parts[-1]) if closed else "")]
    found, at = [], 0
    while at < len(parts):
        part, behind = parts[at], parts[at + 1 :]
        if _large(part):
            end = next((n for n, other in enumerate(behind) if _text(other) in ENDS_LARGE), len(behind))
            found.append(_sum(part, behind[:end]))
            at += 1 + end
        elif _is_bracket(part) and len(behind) > 1 and behind[0].tag == "mtable" and _is_bracket(behind[1]):
            found.append(_fence(_text(part), behind[:1], _text(behind[1])))
            at += 3
        else:
            found += _translated(part)
            at += 1
    return found


def _flat(parts: Sequence[Element]) -> list[Element]:
    """Rows within a row are taken apart, unless they are a pair of brackets with what it holds."""
    flat: list[Element] = []
    for part in parts:
        inside = list(part)
        plain = part.tag in ("mrow", "mstyle", "mpadded") and not (len(inside) > 1 and _opens(inside[0]))
        flat += _flat(inside) if plain and (len(parts) == 1 or part.tag != "mrow") else [part]
    return flat


def _translated(part: Element) -> list[Element]:
    if part.tag in ("mrow", "mstyle", "mpadded", "math", "mtd"):
        return _row(list(part))
    if part.tag in ("mi", "mn", "mo", "mtext", "mspace", "malignmark"):
        return [_run(part)]
    if part.tag not in TRANSLATED:
        raise Untranslatable(part.tag)
    return [TRANSLATED[part.tag](part)]


def _run(part: Element) -> Element:
    text = " " if part.tag == "mspace" else part.text or ""
    run = _node("r")
    style = STYLES.get(part.get("mathvariant") or "")
    if part.tag == "mtext" and style in (None, "p"):
        SubElement(SubElement(run, _name("rPr")), _name("nor"))
    elif style or (part.tag in ("mi", "mo") and len(text) > 1 and text.isalpha()):
        _set(SubElement(run, _name("rPr")), "sty", style or "p")
    said = SubElement(run, _name("t"))
    said.text = text
    said.set(SPACE, "preserve")
    return run


def _of(tag: str, *names: str) -> Callable[[Element], Element]:
    """A translation whose arguments keep their order."""

    def translate(part: Element) -> Element:
        return _with(tag, **dict(zip(names, _arguments(part, len(names)), strict=True)))

    return translate


def _with(tag: str, properties: dict[str, str] | None = None, /, **arguments: Element | Sequence[Element]) -> Element:
    node = _node(tag)
    if properties:
        inside = SubElement(node, _name(f"{tag}Pr"))
        for name, value in properties.items():
            _set(inside, name, value)
    for name, argument in arguments.items():
        SubElement(node, _name(name)).extend(_row([argument] if isinstance(argument, Element) else argument))
    return node


def _fraction(part: Element) -> Element:
    above, below = _arguments(part, 2)
    return _with("f", {"type": "noBar"} if part.get("linethickness") == "0" else None, num=above, den=below)


def _root(part: Element) -> Element:
    if part.tag == "msqrt":
        return _with("rad", {"degHide": "1"}, deg=[], e=list(part))
    base, degree = _arguments(part, 2)
    return _with("rad", deg=degree, e=base)


def _over(part: Element) -> Element:
    base, mark = _arguments(part, 2)
    sign = _text(mark)
    if sign in BRACES:
        return _with("groupChr", {"chr": sign, "pos": BRACES[sign], "vertJc": "bot"}, e=base)
    if sign in BARS:
        return _with("bar", {"pos": "top"}, e=base)
    return _with("acc", {"chr": ACCENTS[sign]}, e=base) if sign in ACCENTS else _with("limUpp", e=base, lim=mark)


def _under(part: Element) -> Element:
    base, mark = _arguments(part, 2)
    sign = _text(mark)
    if sign in BRACES:
        return _with("groupChr", {"chr": sign, "pos": BRACES[sign], "vertJc": "top"}, e=base)
    return _with("bar", {"pos": "bot"}, e=base) if sign in BARS or sign == "_" else _with("limLow", e=base, lim=mark)


def _under_over(part: Element) -> Element:
    base, below, above = _arguments(part, 3)
    upper = _node("limUpp")
    SubElement(upper, _name("e")).append(_with("limLow", e=base, lim=below))
    SubElement(upper, _name("lim")).extend(_row([above]))
    return upper


def _sum(part: Element, over: Sequence[Element]) -> Element:
    count = 1 if part.tag == "mo" else 3 if part.tag in ("msubsup", "munderover") else 2
    base, *limits = _arguments(part, count) if len(part) else [part]
    first, second = ([*limits, None, None])[:2] if part.tag not in ("msup", "mover") else (None, limits[0])
    properties = {
        "chr": _text(base),
        "limLoc": "undOvr" if "under" in part.tag or "over" in part.tag else "subSup",
        **({} if first is not None else {"subHide": "1"}),
        **({} if second is not None else {"supHide": "1"}),
    }
    return _with("nary", properties, sub=[] if first is None else first, sup=[] if second is None else second, e=over)


def _fence(opening: str, inside: Sequence[Element], closing: str) -> Element:
    return _with("d", {"begChr": opening.strip("."), "endChr": closing.strip(".")}, e=inside)


def _matrix(part: Element) -> Element:
    matrix = _node("m")
    for row in part:
        line = SubElement(matrix, _name("mr"))
        for cell in row:
            SubElement(line, _name("e")).extend(_row(list(cell)))
    return matrix


def _lines(parts: Sequence[Element]) -> Element:
    """Formulas one below the other. Word lines them up at ``&``, too."""
    array, line = _node("eqArr"), list[Element]()
    for part in parts if _breaks(parts[-1]) else [*parts, Element("mspace", linebreak="newline")]:
        if not _breaks(part):
            line.append(part)
        else:
            SubElement(array, _name("e")).extend(_line(_flat(line)))
            line = []
    return array


def _enclosed(part: Element) -> Element:
    if part.get("notation") != "box":
        raise Untranslatable(f"menclose {part.get('notation')}")
    return _with("borderBox", e=list(part))


TRANSLATED: dict[str, Callable[[Element], Element]] = {
    "mfrac": _fraction,
    "msqrt": _root,
    "mroot": _root,
    "msup": _of("sSup", "e", "sup"),
    "msub": _of("sSub", "e", "sub"),
    "msubsup": _of("sSubSup", "e", "sub", "sup"),
    "mover": _over,
    "munder": _under,
    "munderover": _under_over,
    "mtable": _matrix,
    "menclose": _enclosed,
}


def _large(part: Element) -> bool:
    if part.tag not in ("mo", "msub", "msup", "msubsup", "munder", "mover", "munderover"):
        return False
    base = part if part.tag == "mo" else next(iter(part), part)
    return base.tag == "mo" and base.text in LARGE


def _breaks(part: Element) -> bool:
    return part.get("linebreak") == "newline"


def _opens(part: Element) -> bool:
    return part.tag == "mo" and part.get("form") == "prefix" and part.get("fence") == "true"


def _is_bracket(part: Element) -> bool:
    return part.tag == "mo" and (part.text or "") in frozenset("()[]{}|‖")


def _text(part: Element) -> str:
    while part.tag == "mrow" and len(part) == 1:
        part = part[0]
    return part.text or "" if part.tag in ("mo", "mi") else ""


def _arguments(part: Element, count: int) -> list[Element]:
    if len(part) != count:
        raise Untranslatable(f"{part.tag} with {len(part)} arguments")
    return list(part)


def _node(name: str) -> Element:
    return Element(_name(name))


def _name(name: str) -> str:
    return f"{{{MATH}}}{name}"


def _set(parent: Element, name: str, value: str) -> None:
    SubElement(parent, _name(name)).set(_name("val"), value)
