# SPDX-License-Identifier: Apache-2.0
"""Texts of Markdown, HTML, LaTeX, spreadsheets and bidirectional scripts, made from a seed."""

from __future__ import annotations

import os
import random
import re

from docparser.convert.formulas import Formulas

COUNT = int(os.environ.get("PRINTED_TEXTS", "300"))
LABELS = ("text", "doc_title", "paragraph_title", "abstract_title", "figure_title", "table_title", "chart_title",
          "vision_footnote", "reference_content", "reference", "abstract", "content", "algorithm", "vertical_text",
          "seal", "formula", "display_formula", "inline_formula", "ocr", "table")  # fmt: skip
PRINTED = (
    "List<String>", "<name>", "<b>not bold</b>", "</div>", "<!-- seen -->", "<script>alert(1)</script>", "<table>",
    "<img src=x>", "&amp;", "&lt;", "&#65;", "&copy", "a < b > c", "]]>", "<?php", "2*3*4", "__init__", "_x_", "**",
    "***", "---", "# 12", "## a", "+ 5 degrees", "- 5", "* a", "> 50 percent", "C:\\new\\_folder", "\\*", "\\#",
    "1984. It was",
    "7.", "3)", "12. twelve", "`code`", "```", "~~gone~~", "~", "[a](b)", "![a](b)", "[1]: http://a.example/", "[x]",
    "| a | b |", "|---|", "====", "http://a.example/?a=1&b=2", "<http://a.example>", "\\alpha", "x_1", "\\frac{a}{b}",
    "{", "}", "^2", "\\begin{x}", "$5", "$6", "100 %", "=1+1", "+5", "-2+3", "@x", "'quoted'", "#N/A", "007", "1,234",
    "_x0041_", "=HYPERLINK(\"a\")", "\u202egpj.exe\u202c", "\u200fabc\u200e", "\u05d0\u05d1 12 \u05d2", "\u0627\u0644",
    "中文。", "é", "“q”", "word", "Mill", "and", "of 12", ".", ";", ":", "!", "?", "%", "\"", "'", "&", "<", ">", "/",
)  # fmt: skip
# Prices, programs, regular expressions and words about LaTeX, with the signs that formulas have.
DOLLARS = (
    "Fee: $ 1,500 + $ 300 = total", "He paid $ 5 / $ 6 a day", "Price range: $$ moderate, $$$ expensive",
    "AS $$ SELECT a FROM t WHERE a < b; $$ LANGUAGE sql", "AS $$\nBEGIN\n  RETURN a + 1;\nEND;\n$$ LANGUAGE plpgsql;",
    "echo $$i; rm $$i", r"sed 's/\(foo\)/\1/'", "$ 100 - $ 50 = $ 50", "Total: $ 10 x 3 = $ 30", "$ 5/kg or $ 6/kg",
    "$ 5/t to $ 6/t", "$ 5 * $ 6", "from $ 3 < x < $ 5", "$ 5 (+ $ 1)", "$ 5/t $ 6/t", "5 $ + 3 $ = 8 $", "5 $ / 6 $",
    "10 $/h + 12 $/h", "$ 5/т и $ 6/т", "$ 5 = € 4, $ 6", "R$ 5 + R$ 6", "HK$ 5 / US$ 6", r"\$5 + \$6", r"$x = \$5$",
    "$ cheap, $$ moderate, $$$ high, $$$$ very", "$$ / $$$", "$$ - $$$", "Cafe $$ | Bar $$ | Inn $$$",
    "Thai $$/Pizza $$/Sushi", "kill -9 $$; echo $$", "cp $$f $$dir/$$f", "$$a/$$b", "$$(CC) -o $$@ $$<",
    "for i in $$list; do echo $$i; done", "PID=$$ PPID=$$PPID", "$$SELECT 1 + 1$$ x", "/tmp/x.$$ /tmp/y.$$",
    r"grep '\(ab\)*c'", r"find . \( -name a -o -name b \) -print", r'find . \( -name "*.c" -o -name "*.h" \)',
    r"grep 'a\(b\|cd\)e'", r"s/\([0-9]*\)/x/", r"\(.*\)", r"use \( ... \) or \[ ... \] or $$...$$",
    r"between \( and \)", r"PS1='\[\e[0m\]\u'", r"PS1='\[\033[01;32m\]\u\[\033[00m\]'", r"[^\[\]]*x\]", r'"\\(a\\)b"',
    r"\(a\)\(b\)\2\1", "$(pwd)/x:$(id)", "$(date)/$(file)", "a=$(ls) b=$(pwd)", "$HOME/bin:$PATH", "$HOME/$USER",
    "=$A$1+$B$2", "=SUM($A$1:$B$10)", "=$A1*$B1", "=$A1^2+$B1^2", "=$A1/(1+$B1)", "=$A$1*$B$1/$C$2",
    '$("x").hide(); $("y").show()', '$("#a").val()+$("#b").val()', "$('#a').css({x:1});$('#b').x",
    "$('.a')[0]+$('.b')[0]", "${x}/${y}", "${x}", "${a_b}^${c}", "`${a} = ${b}`", "Hello ${name}, you owe ${amount}.",
    "$x/$(y)", r"$dir\file.$ext", r'echo \"$x\t$y\n\"', '$a_1 = "$b"', '"$a_1" = "$b"', "$user_id@$host",
    "$first_name$last_name", "$_GET['a'].$_POST['b']", "$a->b+$c->d", "@$a; $b", "$i<10; $i++", "$5+ tips, 10$ max",
    "$1,000+/week or $$ more", "$ 5 | $ 6 | $ 7", "$5 + $6", "$5+$6", "$5/$6", "$$5 + $$6", "$ 5\n+ $ 6", "$ ٥ + $ ٣",
    "SELECT $1 + $2", "$1=$2/$3", "awk '{print $1/$2, $3*$4}'", "cost = $ 3.5 / kg + $ 2", "$ 5 > $ 4", "($ 5 / $ 6)",
    "$ 5k + $ 6k", "$ 1.5 M/yr + $ 2 M/yr", "USD ($) = CAD ($)", "$_ = $/ . $,", "A $ / B $",
    "Revenue ($/unit) * units = $ total", "In $/t | in $/kg", "$scope.a = $http.b", "$.ajax({a:1}); $.get('x')",
    "$this->a = $b_c;", "#$a{x_1} = $b", "$ ls /tmp; $ cd /usr", "$ npm i && $ npm t", "Save $ 10/mo. or $ 100/yr.",
    "Tickets: $ 12 (adults) + $ 8 (kids)", "$ 3,000.00 * 12 = $ 36,000.00", "$ 0.05 | $ 0.10", "Was $ 20 < now $ 15",
    "$ 1M - $ 2M + $ 3M", "A$ 5 / NZ$ 6 / C$ 7", "5 $/kg et 6 $/kg", "12 $ + TVA = 14 $", "from 5 $ < x",
    "1 000 $ + 200 $ = 1 200 $", "$ $ $ = expensive", "Legend: $ = cheap; $$ = mid; $$$ = high",
    "$$ = moderate, $$$ = expensive", "[$$] a/b [$$$]", "DO $$ DECLARE x int := 1; BEGIN x := x + 1; END $$;",
    "CREATE FUNCTION f() RETURNS int AS $$ SELECT 1 + 1 $$ LANGUAGE sql;",
    "AS $body$ SELECT a = b; $body$ LANGUAGE sql", "AS $$ SELECT a || b $$ LANGUAGE sql",
    "all: ; @for f in $$(ls *.c); do gcc $$f -o $$f.o; done", "echo $$HOME/$$USER", "test: $$x = $$y",
    "@echo $$PATH > $$OUT", r"sed -n 's/^\(a*\)b\(c*\)$/\1/p'", r"expr x : '\(.*\)b'", r"grep -e '\(ab\|cd\)\{2\}'",
    r"sed -e 's/\([^,]*\),.*/x/'", r"vim: %s/\(foo\)bar/&/", r"find . \( -type f -o -type d \) -print",
    r'emacs "\\(defun\\|defvar\\)"', r'PS1="\[\e]0;\w\a\]$"', "const s = `${a}_${b}`", "`Total: ${x + y} of ${z}`",
    "$('#x').on('click', () => $('#y').hide())", "$.each($a, (i) => i*2)", "jQuery: $(this).val() + $(that).val()",
    '$("a")[0]=$("b")[0]', "A1: =$B$2*$C$3+$D$4", "=VLOOKUP($A2,$E$2:$F$9,2)", "=$B2>$C2", '=IF($A$1="",$B$1^2,$C$1)',
    "${VAR:-x}=${OTHER:+y}", "$1,$2^$3", "perl -ne 'print $_ if $x{$_}++'", "$x = $y + $z * 2;",
    "my ($a, $b) = @_; $a{x} = $b{y};", "cost_$a+_$b", "$PSVersionTable | $x", "awk '$1 > $2 {print $3}'",
    "price<$5 and >$3", "$AAPL +2% / $MSFT -1%", "Buy $AAPL=5, $TSLA=6", "$TSLA/$AAPL", "US$5/t-US$6/t",
    "$5 – $10 | $20+", "~$ 5 / ~$ 6", "$ -5 + $ -6", "$ (5) + $ (6)", "($ 000) 2019 = 5 ($ 000)", "$ 000 | $ 000",
    "2019 $ | 2020 $ | change", "in $ / in $ / %", "$m | $m", "$'000 = $'000", "Total $\n= 5 $", "$ 5 + $ 6 + $ 7",
    "$?/$!", "$ 五 / $ 六", "expr: expr '+' expr { $$ = $1 + $3; }", "Цена: $ 5 + $ 3 = $ 8", "価格 $ 100 + 送料 $ 20",
    r"re.sub(r'\(.*?\)', '', s)", r"s/\(^\|[^0-9.]\)x/y/g", "$(CC) $(CFLAGS) -c $< -o $@", "10$ + 5$ = 15$",
)  # fmt: skip


def texts(count: int) -> list[str]:
    """Those that hold formulas are left out: these are more than text."""
    draw = random.Random(33)
    made = [text for text in DOLLARS if "\n" not in text][:count]
    while len(made) < count:
        text = " ".join(draw.choices(PRINTED, k=draw.randint(1, 7)))
        if Formulas().take_out(text) == text and not re.match(r"</?(?:div|table)\b", text):
            made.append(text)
    return made


def labelled(beside: str = "") -> list[tuple[str, str]]:
    return [(LABELS[number % len(LABELS)], text + beside) for number, text in enumerate(texts(COUNT))]
