"""Pseudonyms, and inputs under them: nothing real is left, and every figure stays."""

import json
import re
from typing import Any

import pytest

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.privacy import SHORTEST_SECRET, Pseudonyms, hidden_inputs
from channelstats.stats import report
from channelstats.tables.message_row import decode_mentions, decode_reactions
from channelstats.views.loading import DashboardData
from support.channelstats.house import decoded
from support.channelstats.views import random_workspace

GIVEN_NAMES = """
aaliyah aaron abby abdul abel abigail abraham adam adan addison adele adrian adriana ahmed aidan
aiden aimee alan alana albert alejandro alex alexa alexander alexandra alexis alfred ali alice
alicia alina alison allan allen allison alma alvin alyssa amal amanda amber amelia amelie amir
amit amy ana anais andre andrea andreas andrew andy angel angela angelica angelina angelo anita
ann anna anne annie anthony antoine anton antonia antonio anya april archer archie aria ariana
ariel arjun arlo armando arnold arthur arturo ash asher ashley aspen aster astrid aubrey audrey
august aurora austin autumn ava avery axel aya azure barbara barry basil bastian bay bea bear
beatrice beau becky bella ben benedict benjamin bernard bernd bernice berry beryl beth bethany
betty beverly bianca bilal bill billy birch birdie bjorn blake blaze blossom blue bob bobby bonnie
boris boyd brad bradley brady brandon brandy breeze brenda brendan brent brett brian briar bridget
britney brittany brock brook brooke brooks bruce bruno bryan bryce buck bud buddy burt cal caleb
calvin cameron camila camille candace candy cara carl carla carlos carly carmen carol carolina
caroline carrie carson carter casey cash cassandra cassidy catherine cathy cecil cecilia cedar
cedric celeste celia celine chad chance chandler chantal charity charles charlie charlotte chase
chelsea cherry cheryl chester china chip chloe chris christa christian christina christine
christoph christopher christy chuck cindy claire clara clark claude claudia clay clement
clementine cliff clifford clint clinton clive clove clover clyde cody cole colin colleen colt
connie connor constance cooper cora coral cordelia corey cornelia cosmo courtney coy craig crispin
cristina crystal curt curtis cynthia cyrus daisy dakota dale dallas damian dan dana daniel daniela
danielle danny daphne daria darren darryl dave david dawn dean debbie deborah declan dee delia
dell della delta denis denise dennis denver derek desiree destiny devin dexter diana diane dick
diego dieter dimitri dina dirk dolly dolores dominic don donald donna dora doris dorothy doug
douglas dove drake drew duke duncan dustin dusty dwight dylan earl ebony eden edgar edith edmund
eduardo edward edwin eileen elaine eleanor elena eli elias elijah elisabeth elizabeth ella ellen
elliot elm eloise elsa elvis emanuel ember emerald emil emilia emily emma enrique eric erica erik
erika erin ernest ernie esme esmeralda estelle ester esther ethan eugene eunice eva eve evelyn
everett ezra fabian faith falcon fatima fawn fay faye felicia felicity felix fern fernando finch
finn fiona fleur flint flora florence ford forest forrest fox frances francesca francis francisco
frank franz fred frederick frieda fritz gabriel gabriela gabrielle gage gail galen garnet garrett
garry gary gavin gemma gene genesis geoffrey george georgia gerald gerard gerd gideon gilbert gina
ginger giovanni gisela giulia gladys glen glenda glenn gloria goldie gordon grace grant gray
grayson greg gregory greta grey greyson griffin gunter gus guy gwen hailey haley hank hanna hannah
hans harley harmony harold harper harriet harris harrison harry harvey hassan haven hawk hayden
hazel heath heather hector heidi helen helena helga henry herbert herman hilary hilda holden holly
honey honor hope horst howard hubert hudson hugh hugo hunter iain ian ibrahim ida ignacio igor
ilse imogen india indie indigo ines inga ingo ingrid irene iris isaac isabel isabella isaiah isla
isolde israel ivan ivor ivory ivy jace jack jackie jackson jacob jacqueline jade jaden jaime jake
jamal james jamie jan jana jane janet janice jared jasmin jasmine jason jasper javier jay jayden
jean jeff jeffrey jenna jennifer jenny jeremiah jeremy jerome jerry jess jesse jessica jesus jet
jewel jill jim jimmy joan joann joanna joaquin jocelyn jodie joe joel joey johan johann johannes
john johnny jon jonah jonas jonathan jordan jorge jose joseph josephine josh joshua journey joy
joyce juan juanita juba judith judy jules julia julian juliana julie juliet julio julius june
juniper jupiter jurgen justice justin kai kaitlyn karen karim karin karl karla kate katherine
kathleen kathryn kathy katie katja katrina kay kayla keith kelly ken kendall kendra kennedy
kenneth kent kerry kevin khalid kiara kim kimberly king kirk kirsten kit kitty klaus knut konrad
krista kristen kristin kurt kyle kylie lacey lake lana lance lane lara lark larry laura laurel
lauren laurence laurie lawrence layla lea leah leander lee leif leila lena lennart lennon leo leon
leona leonard leonardo leslie lester levi lewis lexi liam lidia liesel lila lilian lilly lily lina
linda lindsay linnea linnet lionel lisa liv liz lloyd logan lois lola london lora lorelei loren
lorenzo loretta lori lorraine lotte lottie lotus lou louis louisa louise love luca lucas lucia
lucille lucky lucy luis luisa luke luna luther lydia lyle lynn lynx mabel mackenzie macy madeline
madison mae maeve magdalena maggie magnolia magnus maja malcolm malik mandy manfred manuel mara
marc marcel marcia marco marcus margaret margarita margo maria mariah marian marianne maribel
marie marigold marilyn marina mario marion marisa marissa marjorie mark marla marlene marlin
marlon marsha marten martha martin martina marty marvin mary mason mateo matilda matt matteo
matthew matthias maureen maurice mavis max maxim maximilian maxine may maya meadow megan mel
melanie melinda melissa melody melvin mercedes mercy meredith merle merlin merry mia micah michael
michaela michel michelle miguel mika mike mila milan mildred miles millie milo mimi mina mindy
ming minnie miranda miriam misty mitchell mohamed mohammed moira molly mona monica monika monty
morgan moritz morris moses muhammad murray mustafa myles myra myrtle nadia nadine nancy naomi
natalia natalie natasha nate nathan nathaniel neil nell nellie nelson nevaeh newt nicholas nick
nicola nicolas nicole nigel nikita nikki nils nina noah noble noel noelle nolan nora norbert
noreen norma norman north nova nuria oak ocean octavia octavio odette olaf olga olive oliver
olivia omar opal ophelia orchid orion oscar osman otis otto owen pablo paige paloma pam pamela
paris parker pascal pat patience patricia patrick patsy patti paul paula pauline paz peace pearl
pedro peggy penelope penny pepper percy perry pete peter petra petunia peyton phil philip phillip
phoebe phoenix phyllis pia pier pierce pierre piers pilar piper pippa polly poppy porter preston
primrose prince princess priscilla priya prudence quentin quincy quinn rachel rafael rain rainbow
rainer ralf ralph ramon ramona randall randy raphael raquel rashid raul raven ray raymond reagan
rebecca red reed reese regina reginald reid reiner rene renee reuben rex rhett rhoda rhonda
ricardo rich richard rick ricky ridley riley rio rita river rivers rob robbie robert roberta
roberto robin robyn rock rocky rod roderick rodney rodrigo roger roland rolf roman ron ronald
ronnie rory rosa rosalie rosalind rose rosemary rosie roslyn ross rosy rowan roxanne roy ruben
ruby rudolf rudy rufus rupert russ russell rusty ruth ryan ryder sabine sabrina sadie saffron sage
sahara sally salma salvador sam samantha samir samuel sandra sandy santiago sapphire sara sarah
sasha saul savannah sawyer scarlet scarlett scott sean sebastian selena selma serena serenity
sergio seth shane shannon shari sharon shaun shawn sheila shelby sheldon shelley sheri sherman
sherry shirley sidney sienna sierra sigrid silas silke silvester silvia simon simone sky skye
skylar sofia sol solomon sonia sonja sophia sophie sorrel sparrow spencer spike spruce stacey
stacy stan stanley star stefan stefanie stella stephan stephanie stephen sterling steve steven
stewart storm stuart sue summer sunny sunshine susan susanne susie suzanne sven sylvester sylvia
tabitha tamara tammy tania tanner tanya tara tariq tasha tatiana taylor ted teresa terrance
terrell terri terry tess tessa thea thelma theo theodore theresa thomas thora thorn thorsten tiara
tiffany tiger tilda till tim timothy tina tobias toby todd tom tommy toni tony tori tracy travis
trent trevor trinity trisha tristan troy trudy tucker tulip tyler tyrone ulrich ulrike ursula vale
valentina valentine valeria valerie van vanessa venus vera verity vernon veronica vicki vicky
victor victoria vida vince vincent viola violet virginia vivian wade wallace walter wanda warren
waylon wayne wendy werner wes wesley wilbur wiley wilhelm will willa william willie willow wilson
winnie winona winston winter wolf wolfgang woody wren wyatt xander xavier ximena yasmin yolanda
yusuf yves yvette yvonne zach zachary zane zara zelda zenobia zephyr zeus zinnia zion zoe zoey
zora
"""

SECRET, OTHER = b"0123456789abcdef", b"0123456789abcdeg"


def test_a_pseudonym_is_the_same_in_every_run_and_another_under_another_secret() -> None:
    one, again, other = Pseudonyms(SECRET), Pseudonyms(SECRET), Pseudonyms(OTHER)
    for name in (Pseudonyms.identifier, Pseudonyms.person, Pseudonyms.channel):
        assert name(one, "UALICE") == name(again, "UALICE") != name(other, "UALICE")
        assert name(one, "UALICE") != name(one, "UBOB")


def test_a_pseudonym_looks_like_what_it_stands_for() -> None:
    names = Pseudonyms(SECRET)
    assert is_user_id(names.identifier("UALICE"))
    assert is_channel_id(names.identifier("CGEN"))


def test_no_pseudonym_has_a_given_name_in_it() -> None:
    names = Pseudonyms(SECRET)
    shown = [
        *(names.person(f"U{number}").lower().split()[:2] for number in range(5000)),
        *(names.channel(f"C{number}").split("-")[:2] for number in range(5000)),
    ]
    words = {word for pair in shown for word in pair}
    assert len(words) > 150  # as many as there are
    assert words & set(GIVEN_NAMES.split()) == set()


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match=f"at least {SHORTEST_SECRET} bytes"):
        Pseudonyms(b"short")


@pytest.mark.parametrize("emoji", ["alice-dance", "ames", "partyalice", "bob_wave", "ohara-wave"])
def test_an_emoji_with_a_name_in_it_is_replaced(emoji: str) -> None:
    found = Pseudonyms(SECRET, ["Alice Ames", "bob", "Eve O'Hara"]).emoji(emoji)
    assert found.startswith("custom-")


@pytest.mark.parametrize("emoji", ["tada", "+1::skin-tone-2", "bobsled"])
def test_other_emoji_stay(emoji: str) -> None:
    assert Pseudonyms(SECRET, ["Alice Ames", "bob"]).emoji(emoji) == emoji


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────

PSEUDONYMS = Pseudonyms(b"a secret of the operator")
SEEDS = range(6)


BY_RANK = {"cum_percent_of_words", "cpercent"}
"""What changes of those who are equal depends on their order."""


def numbers(part: Any) -> list[float]:
    if isinstance(part, dict):
        kept = [
            value
            for name, value in part.items()
            if name not in BY_RANK or not isinstance(value, dict)
        ]
        return [number for value in kept for number in numbers(value)]
    if isinstance(part, list):
        return [number for value in part for number in numbers(value)]
    return [part] if isinstance(part, int | float) else []


@pytest.mark.parametrize("seed", SEEDS)
def test_every_figure_of_the_report_stays(seed: int) -> None:
    of = random_workspace(seed, 60)
    hidden = hidden_inputs(of.inputs, PSEUDONYMS).inputs
    real, shown = (
        decoded(report(inputs, of.period, of.options, generated_at=0))
        for inputs in (of.inputs, hidden)
    )
    assert list(real) == list(shown)
    for name, part in real.items():
        # Equals are in the order of the IDs that are shown.
        assert sorted(numbers(shown[name])) == sorted(numbers(part)), name


@pytest.mark.parametrize("seed", SEEDS)
def test_no_real_id_is_left(seed: int) -> None:
    of = random_workspace(seed, 60)
    messages = of.inputs.messages
    real = {*messages["slack_uid"].drop_nulls(), *messages["slack_cid"], *of.inputs.users}
    for text in messages["mentions"].drop_nulls():
        real |= set(decode_mentions(text))
    for text in messages["reactions"].drop_nulls():
        real |= {uid for reaction in decode_reactions(text) for uid in reaction.users}
    found = hidden_inputs(of.inputs, PSEUDONYMS)
    shown = json.dumps(found.inputs.messages.rows(), default=str)
    shown += repr((found.inputs.users, found.inputs.channels, found.inputs.first_posts))
    shown += repr((found.people, found.channels))
    real -= {"USLACKBOT", ""}
    assert real
    assert not real & set(re.findall(r"[A-Z][A-Z0-9]+", shown))


def real(of: DashboardData) -> object:
    return decoded(report(of.inputs, of.period, of.options, generated_at=0))["input_fingerprint"]


def test_what_a_document_was_made_from_tells_nothing() -> None:
    of = random_workspace(3, 60)
    hidden = hidden_inputs(of.inputs, PSEUDONYMS).inputs
    made = decoded(report(hidden, of.period, of.options, generated_at=0))["input_fingerprint"]
    assert isinstance(made, str)
    assert re.fullmatch("[0-9a-f]+", made)
    assert made == PSEUDONYMS.mark_of(str(real(of)))


def test_the_times_of_listed_messages_are_those_of_their_days() -> None:
    of = random_workspace(3, 60)
    hidden = hidden_inputs(of.inputs, PSEUDONYMS).inputs
    document = decoded(report(hidden, of.period, of.options, generated_at=0))
    entries = [*document["reaction_count"], *document["reply_count"]]
    for each in document["enriched_user"].values():
        entries += [*each["reactions"], *each["replies"]]
    begins = {f"{day.begin:010d}.000000" for day in days_around(of.period)}
    assert entries
    for _, ts, _, _, thread_ts in entries:
        assert ts in begins
        assert thread_ts is None or thread_ts.endswith(".000000")


def days_around(period: Any) -> list[Any]:
    return [type(period)(day, 1, period.zone) for day in period.dates]
