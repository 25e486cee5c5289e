"""What there is to say: sentences by occasion, and the emoji that answer them.

Rule: harmless, and nobody's. `{thing}` becomes what a channel is about, `{who}` a mention,
`{link}` a link.
"""

# ruff: noqa: RUF001 - letters of many scripts

from typing import Final

THINGS: Final = (
    "the release checklist",
    "the welcome guide",
    "the new search page",
    "the autumn meetup",
    "the translation sprint",
    "the map of contributors",
    "the nightly backup",
    "the colour palette",
    "the survey results",
    "the podcast episode",
    "the volunteer rota",
    "the login form",
    "the data import",
    "the mobile layout",
    "the book club list",
    "the garden plan",
    "the reading room",
    "the budget sheet",
)

SAYINGS: Final = (
    "Good morning, everyone.",
    "I have just updated {thing}, notes are in {link}.",
    "Small win of the day: {thing} is finally done.",
    "Thanks to {who} for the careful review.",
    "We moved {thing} to next week, nobody seemed to mind.",
    "Here is a short write-up about {thing}: {link}",
    "I am going to work on {thing} this afternoon, shout if you want to pair.",
    "The numbers look better than last month.",
    "{who} and I talked about {thing} and wrote down three options.",
    "Reminder that the call is an hour earlier this time.",
    "I tried the shorter version with two newcomers and they found their way at once.",
    "Still waiting for an answer on {thing}, no hurry though.",
    "It rained all day here, so I sorted out {thing} at last.",
    "The tests are green again after the fix from yesterday.",
    "Let us keep {thing} simple and come back to it when somebody complains.",
    "My train is late, start without me.",
    "I like how calm this channel has become.",
    "Draft of {thing} is up, comments until Thursday please.",
    "Today I learned that the old version never handled leap days.",
    "Writing this down before I forget it: {thing} depends on the cache being warm.",
    "Bonjour à toutes et à tous, le compte rendu est en ligne : {link}",
    "Ich habe {thing} aufgeräumt, schaut gern mal drüber.",
    "Ya está lista la primera versión, gracias {who} por la ayuda.",
    "お疲れさまです、資料を更新しました。",
    "Dobry wieczór, jutro mnie nie będzie.",
    "Bom dia! A reunião de hoje ficou para as quatro.",
    "नमस्ते, आज की बैठक के नोट्स ऊपर हैं।",
    "大家好，新的说明已经写好了。",
    "Добрий день, переклад готовий наполовину.",
    "صباح الخير، أضفت الصور الجديدة إلى المجلد.",
    ":tada: We have passed a hundred members!",
    ":coffee: first, then {thing}.",
)

QUESTIONS: Final = (
    "Does anybody know who looks after {thing}?",
    "Is there a reason why {thing} is not in the handbook?",
    "How do I get access to {thing}? The old link gives me an empty page.",
    "{who} could you have a look at {thing} when you find a minute?",
    "Which of the two drafts do you prefer: {link}",
    "Has someone seen this before? It only happens on my second screen.",
    "What time works for the call about {thing}, given that half of us are asleep?",
    "Can we drop support for the oldest format?",
    "Where do newcomers usually get stuck?",
    "Would somebody from the other side of the world like to take the late shift?",
    "Quelqu'un aurait-il une copie de la dernière présentation ?",
    "Weiß jemand, wann {thing} fertig sein soll?",
    "¿Alguien puede revisar {thing} antes del viernes?",
    "この件、どなたかご存じですか？",
)

ANSWERS: Final = (
    "Yes, {who} set it up, ask there.",
    "I had the same, clearing the cache helped.",
    "Good question, I will find out and come back to you.",
    "It is in the second section of {link}",
    "Done.",
    "Thank you!",
    "Makes sense to me.",
    "I would take the second one, it reads better aloud.",
    "Not yet, but it is next on my list.",
    "Works here, which version are you on?",
    "Let us try it for two weeks and see.",
    "That was me, sorry. Fixed now.",
    "+1, and please write it into {thing} as well.",
    "I can do it tomorrow morning, my time.",
    "Oh, I did not know that, thanks for explaining so patiently.",
    "The short answer is no, the long one starts in 2009.",
    "Merci beaucoup !",
    "Danke dir, das hat geholfen.",
    "¡Mil gracias!",
    "了解です、ありがとうございます。",
    "Perfekt, genau so.",
    "{who} what do you think?",
)

GREETINGS: Final = (
    "Hello all, I am new here and glad to have found you.",
    "Hi! I found this place through a friend, where should I start?",
    "Hallo zusammen, ich lese erst einmal mit.",
    "Hola a todas y todos, encantada de estar aquí.",
    "Hi everyone, I would love to help with {thing}.",
    "はじめまして、よろしくお願いします。",
)

REPORTS: Final = (
    "Build {number} passed in {small} minutes.",
    "Build {number} failed: {small} tests, see {link}",
    "{small} open tickets, {small} of them waiting for an answer.",
    "Backup finished, {number} files.",
    "Next on the rota this week: {who}",
    "Deployed version 3.{small}.{small}.",
)

ACTIONS: Final = ("waves", "is away for lunch", "makes another pot of tea", "reads the notes again")

EMOJI: Final = (
    "+1",
    "heart",
    "tada",
    "eyes",
    "white_check_mark",
    "joy",
    "pray",
    "raised_hands",
    "wave",
    "clap",
    "rocket",
    "fire",
    "thinking_face",
    "100",
    "heavy_plus_sign",
    "sparkles",
    "muscle",
    "sunflower",
    "party_parrot",
    "coffee",
    "sob",
    "seedling",
    "bulb",
    "ok_hand",
    "tea_time",
    "ship_it",
)
"""From the most used on; the last few are a workspace's own."""

TONED: Final = frozenset({"+1", "pray", "raised_hands", "wave", "clap", "muscle", "ok_hand"})
"""Those that come in skin tones."""

FILES: Final = (
    ("sketch", "png", "image/png"),
    ("notes", "pdf", "application/pdf"),
    ("numbers", "csv", "text/csv"),
    ("photo", "jpg", "image/jpeg"),
    ("agenda", "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("snippet", "py", "text/x-python"),
)
