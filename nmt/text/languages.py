"""What a language code means: the language, its scripts, and whether it is written with spaces between words.

A code is a language of two or three letters, alone or with a script and a region: ``de``, ``deu``, ``pt_BR``,
``zh-Hant-TW``, ``zho_Hans``. Case does not matter, and ``_`` is as good as ``-``. In names of gettext, a script stands
behind an ``@``: ``sr@latin``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nmt.text.compression import SUFFIXES

# ISO 639-1, each with its codes in ISO 639-2 and 639-3, and with the main member of a macrolanguage (cmn of zh).
_CODES = """
aa=aar ab=abk ae=ave af=afr ak=aka am=amh an=arg ar=ara,arb as=asm av=ava ay=ayr,aym az=aze,azj ba=bak be=bel bg=bul
bh=bih bi=bis bm=bam bn=ben bo=bod,tib br=bre bs=bos ca=cat ce=che ch=cha co=cos cr=cre cs=ces,cze cu=chu cv=chv
cy=cym,wel da=dan de=deu,ger dv=div dz=dzo ee=ewe el=ell,gre en=eng eo=epo es=spa et=ekk,est eu=baq,eus
fa=fas,per,pes ff=ful,fuv fi=fin fj=fij fo=fao fr=fra,fre fy=fry ga=gle gd=gla gl=glg gn=grn,gug gu=guj gv=glv ha=hau
he=heb hi=hin ho=hmo hr=hrv ht=hat hu=hun hy=arm,hye hz=her ia=ina id=ind ie=ile ig=ibo ii=iii ik=ipk io=ido
is=ice,isl it=ita iu=ike,iku ja=jpn jv=jav ka=geo,kat kg=kon ki=kik kj=kua kk=kaz kl=kal km=khm kn=kan ko=kor
kr=kau,knc ks=kas ku=kmr,kur kv=kom kw=cor ky=kir la=lat lb=ltz lg=lug li=lim ln=lin lo=lao lt=lit lu=lub lv=lav,lvs
mg=mlg,plt mh=mah mi=mao,mri mk=mac,mkd ml=mal mn=khk,mon mr=mar ms=may,msa,zsm mt=mlt my=bur,mya na=nau nb=nob nd=nde
ne=nep,npi ng=ndo nl=dut,nld nn=nno no=nor nr=nbl nv=nav ny=nya oc=oci oj=oji om=gaz,orm or=ori,ory os=oss pa=pan
pi=pli pl=pol ps=pbt,pus pt=por qu=que,quy rm=roh rn=run ro=ron,rum ru=rus rw=kin sa=san sc=srd sd=snd se=sme sg=sag
sh=hbs si=sin sk=slk,slo sl=slv sm=smo sn=sna so=som sq=alb,als,sqi sr=srp ss=ssw st=sot su=sun sv=swe sw=swa,swh
ta=tam te=tel tg=tgk th=tha ti=tir tk=tuk tl=fil,tgl tn=tsn to=ton tr=tur ts=tso tt=tat tw=twi ty=tah ug=uig uk=ukr
ur=urd uz=uzb,uzn ve=ven vi=vie vo=vol wa=wln wo=wol xh=xho yi=ydd,yid yo=yor za=zha zh=chi,cmn,zho zu=zul
"""
_TWO_LETTERS = frozenset(entry.split("=")[0] for entry in _CODES.split())
_THREE_LETTERS = {
    alias: code for code, aliases in (entry.split("=") for entry in _CODES.split()) for alias in aliases.split(",")
}
# Codes that were withdrawn but are still in use.
_WITHDRAWN = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro"}
_CANONICAL = _THREE_LETTERS | _WITHDRAWN

_ENGLISH_NAMES = """
ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali bs=Bosnian ca=Catalan cs=Czech cy=Welsh da=Danish
de=German el=Greek en=English eo=Esperanto es=Spanish et=Estonian eu=Basque fa=Persian fi=Finnish fr=French ga=Irish
gl=Galician gu=Gujarati he=Hebrew hi=Hindi hr=Croatian hu=Hungarian hy=Armenian id=Indonesian is=Icelandic
it=Italian ja=Japanese ka=Georgian kk=Kazakh km=Khmer kn=Kannada ko=Korean ky=Kyrgyz lo=Lao lt=Lithuanian lv=Latvian
mk=Macedonian ml=Malayalam mn=Mongolian mr=Marathi ms=Malay mt=Maltese my=Burmese nb=Norwegian ne=Nepali nl=Dutch
nn=Norwegian no=Norwegian pa=Punjabi pl=Polish ps=Pashto pt=Portuguese ro=Romanian ru=Russian si=Sinhala sk=Slovak
sl=Slovenian sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu th=Thai tl=Tagalog tr=Turkish ug=Uyghur
uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese zh=Chinese
"""

CHARACTERS_PER_WORD = {
    **dict.fromkeys(("Hani", "Bopo", "Yiii"), 1.5),
    "Kana": 4.0,
    **dict.fromkeys(("Thai", "Laoo"), 5.0),
    **dict.fromkeys(("Khmr", "Mymr", "Tibt", "Lana", "Java"), 7.0),
}
"""Scripts without spaces between words, each with the number of characters that translate one English word.

Measured for Hani, Kana, Thai, Khmr and Mymr in messages of software; estimated for the others.
"""

# The languages of each script (ISO 15924). A language may use several. Kana are hiragana and katakana.
_LANGUAGES = {
    "Latn": "ace af ak ast ay az ban bem bi bjn bm br bs bug ca cdo ceb cjk co crh cs cy da de dik dyu ee en eo es et "
    "eu ff fi fj fo fon fr fur fy ga gd gl gn gsw ha hak haw hmn hr ht hu iba id ig ilo io is it iu jv kab kac kam kbp "
    "kea kg ki kk kl kmb kr ku la lb lg li lij lmo ln lt ltg lua luo lus lv mg mi min mos mr ms mt nan nb nds nl nn no "
    "nso nus nv ny oc om pag pap pcm pl pt qu rm rn ro rw sc scn sco se sg sh sk sl sm sn so sq sr ss st su sv sw szl "
    "taq tet tk tl tn to tpi tr ts tt tum tw ty tzm ug umb uz vec vi vo wa war wo xh yo za zu",
    "Grek": "el grc",
    "Cyrl": "ab av az ba be bg bs ce cu cv kk kv ky mk mn myv os ru rue sah sh sr tg tk tt tyv udm ug uk uz",
    "Armn": "hy",
    "Hebr": "he yi",
    "Arab": "acm acq aeb ajp apc ar ars ary arz az azb bal bjn ckb fa glk ha kk kr ks ku ky lrc ms mzn pa pnb prs ps "
    "sd skr tg tk ug ur uz",
    "Thaa": "dv",
    "Nkoo": "bm nqo",
    "Deva": "awa bh bho brx doi dty gom hi hne kok ks mag mai mr ne new sa sat sd",
    "Beng": "as bn bpy mni",
    "Guru": "pa",
    "Gujr": "gu",
    "Orya": "or",
    "Taml": "ta",
    "Telu": "te",
    "Knda": "kn tcy",
    "Mlym": "ml",
    "Sinh": "si",
    "Thai": "th",
    "Laoo": "lo",
    "Tibt": "bo dz",
    "Mymr": "ksw mnw my shn",
    "Geor": "ka xmf",
    "Hang": "ko",
    "Ethi": "am ti",
    "Cans": "cr iu oj",
    "Khmr": "km",
    "Java": "jv",
    "Mong": "mn",
    "Lana": "nod",
    "Olck": "sat",
    "Tfng": "kab taq tzm zgh",
    "Kana": "ja",
    "Bopo": "zh",
    "Hani": "cdo gan hak ja ko lzh nan wuu yue zh",
    "Yiii": "ii",
    "Mtei": "mni",
}
# Script codes that stand for several of these scripts, or for a variant of one.
_VARIANTS = {
    "Hans": ("Bopo", "Hani"),
    "Hant": ("Bopo", "Hani"),
    "Hanb": ("Bopo", "Hani"),
    "Jpan": ("Kana", "Hani"),
    "Hira": ("Kana",),
    "Hrkt": ("Kana",),
    "Kore": ("Hang", "Hani"),
    "Latf": ("Latn",),
    "Aran": ("Arab",),
}

# The likely script of a language in a region, by likelySubtags.json of Unicode's CLDR 45, where regions differ in it.
_LIKELY_SCRIPTS = """
az-AZ=Latn az-IQ=Arab az-IR=Arab az-RU=Cyrl kk-CN=Arab kk-KZ=Cyrl mn-CN=Mong mn-MN=Cyrl pa-IN=Guru pa-PK=Arab
sr-BA=Cyrl sr-ME=Latn sr-RO=Latn sr-RS=Cyrl sr-TR=Latn uz-AF=Arab uz-CN=Cyrl uz-UZ=Latn yue-CN=Hans yue-HK=Hant
zh-AU=Hant zh-CN=Hans zh-GB=Hant zh-HK=Hant zh-ID=Hant zh-MO=Hant zh-SG=Hans zh-TH=Hant zh-TW=Hant zh-US=Hant
"""
_SCRIPT_OF_REGION = dict(entry.split("=") for entry in _LIKELY_SCRIPTS.split())
_SCRIPTS_OF_GETTEXT = {"latin": "Latn", "cyrillic": "Cyrl", "arabic": "Arab", "devanagari": "Deva", "iqtelif": "Latn"}

# What a code may look like. It becomes part of names of files, and of commands that people copy.
_WELL_FORMED = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*(@[A-Za-z]{1,16})?")
# A code at the end of a file name. There, script and region have capitals or are numbers.
_SUFFIX = re.compile(r"([a-z]{2,3})([-_][A-Z][a-z]{3})?([-_]([A-Za-z]{2}|[0-9]{3}))?(@[A-Za-z]+)?")
# Suffixes that are more often something else than Bashkir or Rundi.
_NO_LANGUAGES = frozenset({"bak", "run"})
# Longer strings are no codes, and are not cached.
_LONGEST = 100


@dataclass(frozen=True)
class _Code:
    """The parts of a language code; empty if they are not given."""

    language: str
    """Two letters if the language has such a code, otherwise three."""
    script: str
    region: str
    rest: tuple[str, ...]


def primary_language(code: str) -> str:
    """The language of a code without script and region, in two letters if possible: ``zh`` for ``zho_Hans``."""
    return _parts(code).language


def language_tag(code: str) -> str:
    """A code in the form of the web (BCP 47): ``zh-Hans`` for ``zho_Hans``, ``pt-BR`` for ``pt_br``."""
    parts = _parts(code)
    return "-".join(filter(None, (parts.language, parts.script, parts.region, *parts.rest)))


def name_of(code: str) -> str:
    """The English name of a language; of languages that few programs translate, the code."""
    language = primary_language(code)
    names = dict(entry.split("=") for entry in _ENGLISH_NAMES.split())
    return names.get(language, language)


@functools.lru_cache(maxsize=100)  # Asked for every line.
def is_unspaced(code: str) -> bool:
    """Whether a language is written without spaces between words; False for languages that are not known."""
    scripts = scripts_of(code)
    return bool(scripts) and CHARACTERS_PER_WORD.keys() >= set(scripts)


@functools.lru_cache(maxsize=100)
def scripts_of(code: str) -> tuple[str, ...]:
    """The scripts of a language, or the one that the code names; empty if the language is not known."""
    parts = _parts(code)
    if parts.script in _LANGUAGES or parts.script in CHARACTERS_PER_WORD:
        return (parts.script,)
    if parts.script in _VARIANTS:
        return _VARIANTS[parts.script]
    return tuple(script for script, languages in _LANGUAGES.items() if parts.language in languages.split())


def characters_of(scripts: Iterable[str]) -> str:
    """The characters of some scripts, as part of a set of the package ``regex``."""
    # The marks of long vowels and voiced consonants belong to both kana, so to neither as a script.
    kana = r"\p{Script=Hira}\p{Script=Kana}\u30fc\uff70\uff9e\uff9f"
    return "".join(kana if script == "Kana" else rf"\p{{Script={script}}}" for script in scripts)


def is_well_formed(code: str) -> bool:
    """Whether a text has the form of a language code, known or not."""
    return len(code) <= _LONGEST and _WELL_FORMED.fullmatch(code) is not None


def well_formed(code: str) -> str:
    """A language code, or no text if the language is not known, as it is: for settings and records.

    Raises:
        ValueError: it does not have the form of a code.
    """
    if code and not is_well_formed(code):
        raise ValueError("must be a language code such as en, pt-BR or sr@latin")
    return code


def is_language_code(code: str) -> bool:
    """Whether a code is a language code. Any three letters are accepted: most are the code of a language."""
    language = primary_language(code)
    return language in _TWO_LETTERS or (len(language) == 3 and language.isascii() and language.isalpha())


def language_of_name(path: Path) -> str:
    """The language code at the end of a file name, before ``.gz`` and the like; empty if there is none.

    Most combinations of three letters are the code of a language (src, tok, hyp). So three letters are taken for one
    only if that language also has a code of two letters, or if a script or a region follows.
    """
    suffix = (path.with_suffix("") if path.suffix in SUFFIXES else path).suffix.removeprefix(".")
    match = _SUFFIX.fullmatch(suffix)
    if match is None or suffix in _NO_LANGUAGES:
        return ""
    has_more = any(match.group(2, 3, 5))
    is_known = match[1] in _TWO_LETTERS or match[1] in _THREE_LETTERS or (len(match[1]) == 3 and has_more)
    return suffix if is_known else ""


def fitting(codes: Iterable[str], wanted: str) -> list[str]:
    """The codes that mean a language: those that are equal to its own; without such a code, those that fit.

    Two codes fit if they have the same language, and no different script or region. ``zh-TW`` has the script ``Hant``.
    """
    if len(wanted) > _LONGEST:
        return []
    return list(_fitting(tuple(code for code in codes if len(code) <= _LONGEST), wanted))


@functools.lru_cache(maxsize=1_000)  # A translation memory asks at every segment.
def _fitting(codes: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    ranks = [_rank(_parts(code), _parts(wanted)) for code in codes]
    best = max(ranks, default=0)
    return tuple(code for rank, code in zip(ranks, codes, strict=True) if rank == best > 0)


def _rank(found: _Code, wanted: _Code) -> int:
    """2 for equal codes, 1 for codes that fit, 0 for others."""
    both = [(_script(found), _script(wanted)), (found.region, wanted.region), (found.rest, wanted.rest)]
    if found.language != wanted.language or any(ours != theirs and ours and theirs for ours, theirs in both):
        return 0
    return 1 + (found == wanted)


def _script(code: _Code) -> str:
    """The script of a code: its own, or the likely one of its region."""
    return code.script or _SCRIPT_OF_REGION.get(f"{code.language}-{code.region}", "")


@functools.lru_cache(maxsize=100)
def _parts(code: str) -> _Code:
    code, _, modifier = code.strip().replace("_", "-").partition("@")
    first, *others = code.split("-")
    if modifier:
        script = _SCRIPTS_OF_GETTEXT.get(modifier.lower())
        others = [script, *others] if script else [*others, modifier]
    language = first.lower()
    if language == "zh" and others and others[0].lower() in ("cmn", *_LANGUAGES["Hani"].split()):
        language = others.pop(0).lower()  # "zh-yue" is an old form of "yue".
    script = others.pop(0).title() if others and re.fullmatch("[A-Za-z]{4}", others[0]) else ""
    region = others.pop(0).upper() if others and re.fullmatch("[A-Za-z]{2}|[0-9]{3}", others[0]) else ""
    return _Code(_CANONICAL.get(language, language), script, region, tuple(part.lower() for part in others))
