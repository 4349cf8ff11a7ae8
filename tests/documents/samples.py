"""A document of each format, with what its format may hold."""

HTML = """<!DOCTYPE html>
<html lang="en"><head><title>The house &amp; the dog</title><meta name="description" content="A page.">
<style>p { color: red }</style></head>
<body><!-- a comment --><p class=x>A <b>big</b> dog
sees <a href="x?a=1&amp;b" title="Go">the <i>house</i></a>.</p>
<ul><li>One<li>Two &lt; three<br>Four</ul><img src="a.png" alt="A cat">
<p>Press <code>a &lt; b</code> now. <span translate="no">Acme</span> wins</p><pre>as it is</pre>
<p>1 &nbsp; 2</p><table><tr><td>Cell</table></body></html>
"""
MARKDOWN = """---
title: kept
---
# A *title*

A **big** dog \\* sees
the [house](http://a.b/c "t") &amp; `code`.
Line two <b>bold</b>{break_}
after a break <http://x.y>.

> - quoted *text
>   over lines*
> - other

| a | big *cell* |
|---|------------|
| 1 | dog        |

```python
kept = "code"
```

<div>kept</div>
""".replace("{break_}", "  ")
PO = r"""# A comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: de\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. for translators
#: a.py:1
#, python-format
msgctxt "menu"
msgid "Open %(name)s"
msgstr ""

#, fuzzy, c-format
#| msgid "%d old dog"
msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] "alt"
msgstr[1] "alte"

msgid "Done"
msgstr "Fertig"

msgid ""
"First line.\n"
"\n"
"Second \"line\" with <b>bold</b> text.\n"
msgstr ""

msgid "&File"
msgstr ""

#~ msgid "gone"
#~ msgstr "weg"
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
A <i>big</i> dog
sees the house.

2
00:00:03,000 --> 00:00:04,000
...

3
00:00:05,000 --> 00:00:06,000
- Yes.
"""
VTT = """WEBVTT

NOTE a note

intro
00:01.000 --> 00:02.000 align:start
<v Ann>Hello you</v>

00:02.000 --> 00:03.000
<v.loud Roger Bingham>We <c.yellow>are</c> <i>here &amp; there</i> &lt;now&gt;
<00:02.500> for you
"""
XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="a" source-language="en" datatype="plaintext"><body>
    <trans-unit id="1">
      <source>A <g id="1">big</g> dog &amp; <x id="2"/> a <ph id="3">&lt;br&gt;</ph> house</source>
    </trans-unit>
    <trans-unit id="2"><source>Yes</source><target state="final">Ja</target></trans-unit>
    <trans-unit id="3"><source>No</source><target state="new">No</target></trans-unit>
    <trans-unit id="4" translate="no"><source>Acme</source></trans-unit>
    <trans-unit id="5"><source>By <mrk mtype="protected">Acme Co</mrk> only</source></trans-unit>
  </body></file>
</xliff>
"""
XLIFF_2 = """<?xml version="1.0"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">
  <file id="f"><unit id="u">
    <segment><source>A <pc id="1">big</pc> dog<ph id="2"/>.</source></segment>
    <ignorable><source> </source></ignorable>
    <segment state="initial"><source>Two</source><target></target></segment>
  </unit></file>
</xliff>
"""
JSON = r"""{"title": "The \"house\"", "@title": {"description": "Not this"}, "n": 1,
 "list": ["One {{name}}", "Line one\nLine two"], "url": "http://a.b/c",
 "many": "{n, plural, one {dog} other {dogs}}"}
"""
PROPERTIES = r"""# a comment
title = The house
long : It is a \
    long text
count={0} dogs can''t sing
empty=
uml=\u00c4 dog
"""
SAMPLES = {
    "page.html": HTML,
    "page.md": MARKDOWN,
    "a.po": PO,
    "a.srt": SRT,
    "a.vtt": VTT,
    "1.xlf": XLIFF_1,
    "2.xlf": XLIFF_2,
    "a.json": JSON,
    "a.properties": PROPERTIES,
    "a.txt": " The dog sleeps.  \n\n\tA cat.\u2028Two. \nno end",
}
