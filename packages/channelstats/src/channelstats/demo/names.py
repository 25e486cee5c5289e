"""Names of people, by the culture they come from.

Rule: given and family names are each common by themselves; how they meet is chance.

A name is written `script|latin` where its script is not Latin: the first is shown, the second
makes the user name.
"""

# ruff: noqa: RUF001 - letters of many scripts

import random
import re
import unicodedata
from typing import Final, NamedTuple


class Culture(NamedTuple):
    """Names of one part of the world, and its time zones. ``share`` is how many come from it."""

    share: float
    zones: tuple[str, ...]
    given: tuple[str, ...]
    family: tuple[str, ...]
    family_first: bool = False


class Name(NamedTuple):
    """How somebody is called in full, by the first name alone, and in Latin letters."""

    full: str
    given: str
    latin_given: str
    latin_family: str


def _culture(
    share: float, zones: str, given: str, family: str, *, family_first: bool = False
) -> Culture:
    return Culture(
        share, tuple(zones.split()), tuple(given.split()), tuple(family.split()), family_first
    )


CULTURES: Final = (
    _culture(
        20,
        "America/New_York America/Chicago America/Denver America/Los_Angeles America/Toronto",
        "Ava Noah Grace Owen Hazel Wyatt Ruby Caleb Nora Miles Iris Felix Ada Theo Willa Jonah",
        "Carter Hayes Brooks Porter Foster Reed Hudson Parker Sutton Bishop Walsh Mercer Lane "
        "Whitman Dalton Keller",
    ),
    _culture(
        9,
        "Europe/London Europe/Dublin Australia/Sydney Pacific/Auckland",
        "Isla Alfie Niamh Rhys Freya Callum Orla Euan Poppy Declan Bronwyn Angus Maeve Jack",
        "Ashworth Campbell Byrne Pritchard Fletcher Murray Doyle Bevan Thornton Gallagher Ross "
        "Hartley Kerr Lloyd",
    ),
    _culture(
        12,
        "Europe/Berlin Europe/Vienna Europe/Zurich",
        "Anneke Jürgen Lotte Matthias Greta Florian Käthe Moritz Sabine Tobias Ulrike Lennart "
        "Heike Björn",
        "Bäcker Vogel Schröder Lindner Krüger Brandt Köhler Winkler Haas Seidel Möller Ziegler "
        "Busch Engel",
    ),
    _culture(
        9,
        "Europe/Paris Europe/Brussels America/Montreal Africa/Dakar",
        "Amélie Baptiste Chloé Étienne Léa Gaël Margaux Hugo Noémie Rémi Solène Aminata Théo Zoé",
        "Lefèvre Moreau Girard Fontaine Chevalier Marchand Dupuis Renaud Diallo Barbier Ndiaye "
        "Gauthier Perrin Colin",
    ),
    _culture(
        10,
        "America/Mexico_City America/Bogota America/Argentina/Buenos_Aires Europe/Madrid",
        "Lucía Mateo Ximena Joaquín Valentina Iñaki Paloma Rodrigo Itzel Andrés Renata Íñigo "
        "Marisol Tomás",
        "Castillo Núñez Herrera Ibáñez Fuentes Peña Salazar Quiroga Vega Acosta Rojas Muñoz "
        "Paredes Cortés",
    ),
    _culture(
        6,
        "America/Sao_Paulo Europe/Lisbon",
        "Beatriz Thiago Larissa Caio Mariana João Letícia Otávio Luana Davi Helena Murilo",
        "Teixeira Barbosa Cardoso Moraes Azevedo Pinheiro Freitas Gonçalves Nogueira Sampaio "
        "Brandão Coelho",
    ),
    _culture(
        9,
        "Asia/Kolkata",
        "अनन्या|Ananya आरव|Aarav Priya Rohan मीरा|Meera Vikram Kavya Arjun इशान|Ishaan Divya "
        "Nikhil Lakshmi Farhan Sana",
        "शर्मा|Sharma Iyer Menon पटेल|Patel Reddy Banerjee Nair गुप्ता|Gupta Kulkarni Das Joshi "
        "Siddiqui Bhat Chopra",
    ),
    _culture(
        6,
        "Asia/Tokyo",
        "陽菜|Hina 蓮|Ren 結衣|Yui 大輔|Daisuke 美咲|Misaki 健太|Kenta 葵|Aoi 直樹|Naoki "
        "さくら|Sakura 翔|Sho 恵|Megumi 拓海|Takumi",
        "佐藤|Sato 鈴木|Suzuki 高橋|Takahashi 田中|Tanaka 渡辺|Watanabe 伊藤|Ito 山本|Yamamoto "
        "中村|Nakamura 小林|Kobayashi 加藤|Kato 吉田|Yoshida 山田|Yamada",
        family_first=True,
    ),
    _culture(
        6,
        "Asia/Shanghai Asia/Taipei Asia/Singapore",
        "晓明|Xiaoming 丽华|Lihua 伟|Wei 静怡|Jingyi 志强|Zhiqiang 雨桐|Yutong 俊杰|Junjie "
        "思远|Siyuan 欣然|Xinran 文博|Wenbo 梓涵|Zihan 建国|Jianguo",
        "王|Wang 李|Li 张|Zhang 刘|Liu 陈|Chen 杨|Yang 赵|Zhao 黄|Huang 周|Zhou 吴|Wu 徐|Xu 孙|Sun",
        family_first=True,
    ),
    _culture(
        3,
        "Asia/Seoul",
        "서연|Seoyeon 민준|Minjun 지우|Jiwoo 하은|Haeun 도윤|Doyun 수아|Sua 예준|Yejun 지민|Jimin",
        "김|Kim 이|Lee 박|Park 최|Choi 정|Jung 강|Kang 조|Cho 윤|Yoon",
        family_first=True,
    ),
    _culture(
        4,
        "Europe/Kyiv Europe/Sofia Europe/Belgrade",
        "Оксана|Oksana Тарас|Taras Марія|Mariia Богдан|Bohdan Ірина|Iryna Андрій|Andrii "
        "Милица|Milica Стефан|Stefan Надежда|Nadezhda Димитър|Dimitar",
        "Коваль|Koval Шевчук|Shevchuk Бондар|Bondar Мельник|Melnyk Петровић|Petrovic "
        "Иванова|Ivanova Ткач|Tkach Савчук|Savchuk Лисенко|Lysenko Мороз|Moroz",
    ),
    _culture(
        5,
        "Africa/Lagos Africa/Nairobi Africa/Accra Africa/Johannesburg",
        "Adaeze Kwame Wanjiru Tunde Amara Thabo Ngozi Kofi Zanele Chidi Akinyi Sipho Yaa Obinna",
        "Okafor Mensah Kamau Adeyemi Dlamini Boateng Mwangi Eze Nkosi Owusu Otieno Balogun Ndlovu "
        "Asante",
    ),
    _culture(
        4,
        "Africa/Cairo Asia/Riyadh Asia/Beirut Asia/Amman",
        "ليلى|Layla يوسف|Youssef مريم|Mariam عمر|Omar نور|Nour خالد|Khaled هبة|Heba طارق|Tarek "
        "سلمى|Salma كريم|Karim",
        "حداد|Haddad منصور|Mansour نصار|Nassar خوري|Khoury السيد|Elsayed عزيز|Aziz صالح|Saleh "
        "بركات|Barakat شاهين|Shaheen رزق|Rizk",
    ),
    _culture(
        3,
        "Europe/Istanbul Asia/Jerusalem Europe/Athens",
        "Elif Emre Zeynep Barış נועה|Noa איתי|Itai Ελένη|Eleni Νίκος|Nikos Çağla Deniz",
        "Yıldız Kaya Öztürk Şahin כהן|Cohen לוי|Levi Παππάς|Pappas Γεωργίου|Georgiou Aydın Koç",
    ),
    _culture(
        4,
        "Europe/Stockholm Europe/Helsinki Europe/Warsaw Europe/Prague",
        "Astrid Björn Aino Väinö Zofia Krzysztof Eliška Ondřej Sigrid Łukasz Eero Agnieszka",
        "Lindqvist Virtanen Nowak Dvořák Bergström Korhonen Wójcik Svoboda Åkesson Mäkinen "
        "Zieliński Procházka",
    ),
)

ZONES: Final = tuple(zone for culture in CULTURES for zone in culture.zones)


class Namer:
    """Gives names; nobody is called like another before all combinations are used."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left: dict[Culture, list[tuple[str, str]]] = {}

    def name(self, culture: Culture) -> Name:
        left = self._left.get(culture)
        if not left:
            left = [(given, family) for given in culture.given for family in culture.family]
            self._rng.shuffle(left)
            self._left[culture] = left
        given, family = (word.partition("|") for word in left.pop())
        if not (given[2] and family[2]):  # one script for all of a name
            given, family = ((part[2] or part[0], "", "") for part in (given, family))
        order = (family[0], given[0]) if culture.family_first else (given[0], family[0])
        space = "" if culture.family_first and given[2] else " "
        return Name(
            space.join(order),
            given[0],
            _plain(given[2] or given[0]),
            _plain(family[2] or family[0]),
        )


def _plain(word: str) -> str:
    """A word in a to z alone, as user names are."""
    spelled = word.replace("ı", "i").replace("ł", "l").replace("Ł", "L").replace("ø", "o")
    return re.sub("[^a-z]", "", unicodedata.normalize("NFKD", spelled).lower())
