"""Language codes as people write them: ``de``, ``pt_BR``, ``zh-Hans``, ``deu_Latn``, and file names that end in one."""

from __future__ import annotations

import re
from pathlib import Path

from nmt.text import ARCHIVES, primary_language

_CODE = re.compile(r"([a-z]{2,3})([-_][A-Z][a-z]{3})?([-_]([A-Za-z]{2}|[0-9]{3}))?")

# ISO 639-1.
_TWO_LETTER_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg
ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn
no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta
te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
# ISO 639-2 and 639-3 codes of languages that also have a two-letter code. Most combinations of three letters are a
# language code (src, tok, hyp), so the end of a file name is one only if it is listed here or has a script or region.
_THREE_LETTER_CODES = """
afr=af amh=am ara=ar arb=ar aze=az bel=be ben=bn bos=bs bul=bg cat=ca ces=cs cze=cs cmn=zh chi=zh cym=cy dan=da
deu=de dut=nl ell=el eng=en epo=eo est=et eus=eu fas=fa fin=fi fra=fr fre=fr ger=de gle=ga glg=gl gre=el guj=gu
hau=ha heb=he hin=hi hrv=hr hun=hu hye=hy ibo=ig ice=is ind=id isl=is ita=it jpn=ja kan=kn kat=ka kaz=kk khm=km
kor=ko kur=ku lao=lo lat=la lav=lv lit=lt ltz=lb mal=ml mar=mr mkd=mk mlt=mt mon=mn msa=ms mya=my nep=ne nld=nl
nno=nn nob=nb nor=no ori=or pan=pa per=fa pes=fa pol=pl por=pt pus=ps ron=ro rum=ro rus=ru sin=si slk=sk slo=sk
slv=sl som=so spa=es sqi=sq srp=sr swa=sw swe=sv swh=sw tam=ta tel=te tgl=tl tha=th tur=tr ukr=uk urd=ur uzb=uz
vie=vi wel=cy xho=xh yor=yo zho=zh zul=zu
"""
_TWO_LETTERS = frozenset(_TWO_LETTER_CODES.split())
_THREE_LETTERS = dict(pair.split("=") for pair in _THREE_LETTER_CODES.split())


def base_language(code: str) -> str:
    """A code without script and region, in two letters if possible: ``zh`` for ``zho_Hans``."""
    primary = primary_language(code)
    return _THREE_LETTERS.get(primary, primary)


def is_language_code(code: str) -> bool:
    """Whether a code is a language code. Any three letters are accepted: most are the code of a language."""
    primary = primary_language(code)
    return primary in _TWO_LETTERS or (len(primary) == 3 and primary.isascii() and primary.isalpha())


def language_of_name(path: Path) -> str:
    """The language code at the end of a file name, before ``.gz`` and the like; empty if there is none."""
    suffix = (path.with_suffix("") if path.suffix in ARCHIVES else path).suffix.removeprefix(".")
    match = _CODE.fullmatch(suffix)
    if match is None:
        return ""
    has_more = match[2] is not None or match[3] is not None
    is_known = match[1] in _TWO_LETTERS or match[1] in _THREE_LETTERS or (len(match[1]) == 3 and has_more)
    return suffix if is_known else ""
