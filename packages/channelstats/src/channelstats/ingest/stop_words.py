"""Words that say nothing about what is talked about, of the languages that questions are recognised
in (see `channelstats.ingest.questions`). Those of fewer than three letters are no words at all.
"""

from typing import Final

_LISTS: Final = {
    "en": """
        about above actually after again all almost alone along already also although always and
        another any anybody anyone anything are aren around ask away back bad because been before
        being below best better between big bit both but call came can cannot come could couldn did
        didn different does doesn doing don done down during each either else end enough even ever
        every everyone everything far few find fine first for found from further gave get gets
        getting give given goes going gone gonna good got great guess guys had hadn haha has hasn
        have haven having hello help her here hers herself hey him himself his hope how however into
        isn its itself just keep kind know last later least left less let lets like likely little
        long look looking looks lot made make makes making many may maybe mean might mine more
        morning most much must myself need needs never new next nice nobody non none nope nor not
        nothing now off often okay old once one ones only onto other others our ours ourselves out
        over own part people per perhaps please possible pretty probably put quite rather really
        right said same saw say saying says see seem seems seen several shall she should shouldn
        show since some somebody someone something sometimes soon sorry still stuff such sure take
        taken tell than thank thanks that thats the their theirs them themselves then there these
        they thing things think this those though thought through time times today together told
        tomorrow too took tried true try trying two under until upon use used using usually very via
        wait wanna want wanted wants was wasn way well went were weren what whatever when where
        whether which while who whole whom whose why will wish with within without won work would
        wouldn wow yeah year yep yes yesterday yet you your yours yourself
    """,
    "de": """
        aber alle allem allen aller alles als also andere anderen anders auch auf aus bei beim bin
        bis bist bitte brauche bräuchte dabei dafür daher damit danach danke dann daran darauf darf
        das dass davon dazu dein deine deinem deinen deiner dem den denn der deren des deshalb die
        dies diese diesem diesen dieser dieses dir doch dort durch eben ein eine einem einen einer
        eines einfach einige einmal erst etwa etwas euch euer eure falls fast für ganz geben gegen
        gehen geht genau gerade gern gerne gibt gleich gut guten habe haben halt hat hatte hatten
        heute hier hin hätte ich ihm ihn ihnen ihr ihre ihrem ihren ihrer immer ins irgendwie ist
        jede jedem jeden jeder jedes jemand jetzt kann kannst kein keine keinen keiner klar kommen
        kommt können könnte lassen leider machen macht mal man manche mehr mein meine meinem meinen
        meiner mich mir mit morgen muss müssen nach nachdem natürlich nein nicht nichts noch nun nur
        oben oder ohne okay schon sehen sehr sein seine seinem seinen seiner seit selbst sich sie
        sind soll sollte sollten somit sondern sonst stimmt und uns unser unsere unserem unseren
        unter viel viele vielen vielleicht vom von vor war waren warum was weg weil weiss weiter
        weiß welche welcher wenn wer werde werden wie wieder will wir wird wirklich wissen wohl
        wollen wurde wurden würde würden zum zur zwar zwischen über
    """,
    "fr": """
        afin ainsi alors après aucun aucune aussi autre autres aux avait avant avec avez avoir avons
        beaucoup bien bon bonjour bonne car cas cela celle celles celui cependant certains ces cet
        cette ceux chaque chez chose comme comment crois dans depuis des dire dit dois doit donc
        dont déjà elle elles encore enfin entre est faire fait faut fois font hier ici ils jamais
        jour juste les leur leurs lors lui mais merci mes mettre mieux moi moins mon même mêmes non
        nos notre nous ont oui par parce pareil pas pendant petit peu peut peux plus plusieurs
        plutôt pour pourquoi pourrait pouvez pouvoir près puis quand que quel quelle quelles quelque
        quelques quels qui quoi rien sais sans sera serait seront ses seul sinon soit son sont sous
        suis sur surtout tant tel tes toi ton toujours tous tout toute toutes trop très une vais vas
        vers veut veux voici voilà voir vont vos votre vous vrai vraiment étaient étais était été
        être
    """,
    "es": """
        ahora algo alguien alguna algunas alguno algunos algún allí ante antes aquel aquella aquí
        así aunque aún bien buen buena buenas bueno buenos cada casi como con contra cosa cosas creo
        cual cualquier cuando cuanto cuándo cómo del desde después dice donde dos día días dónde
        ella ellas ellos entonces entre era eran eres esa esas ese eso esos esta estaba estar estas
        este esto estos estoy está están estás fue fueron gracias había hace hacer hacia han has
        hasta hay haya hecho hemos hola hoy igual incluso las les los luego mañana mejor menos
        mientras misma mismo muchas mucho muchos muy más nada nadie ninguna ningún nos nosotros
        nuestra nuestro nunca otra otras otro otros para parece pero poco poder podría por porque
        puede pueden puedo pues que quien quiero quién qué sabe saber sea según ser será sería sido
        siempre sin sobre sois solo somos son soy sus sólo también tan tanto tenemos tener tengo
        tiene tienen toda todas todavía todo todos tras tuve una unas uno unos usted ustedes vale
        vamos van veces ver vez voy
    """,
    "pt": """
        acho agora ainda algo algum alguma algumas alguns alguém ali antes aos apenas aquela aquele
        aqui assim até bem boa bom cada caso coisa com como dar das dela dele deles depois desde
        dessa desse desta deste deve dia dias disse disso dizer dos ela elas ele eles então era eram
        essa essas esse esses esta estamos estar estas estava este estes está estão faz fazer feito
        fiz foi foram gente hoje isso isto lhe mais mas melhor menos mesma mesmo meu meus minha
        minhas muita muitas muito muitos nada nas nem nenhum nessa nesse nesta neste ninguém nos
        nossa nosso num numa nunca não nós obrigada obrigado olá onde ontem outra outras outro
        outros para parece pela pelas pelo pelos pode podem podemos pois por porque posso pouco pra
        precisa preciso quais qual qualquer quando quanto que quem quero saber seja sem sempre sendo
        ser seria será seu seus sim sobre somos sua suas são também tanto tem temos tenho ter teve
        tinha toda todas todo todos tudo têm uma umas uns vai vamos vez você vocês vou vão
    """,
    "it": """
        abbiamo adesso alcune alcuni alla alle allo allora altra altre altri altro anche ancora
        appena avere avete aveva base ben bene buon buona buongiorno che chi ciao circa ciò come con
        cosa così credo cui dai dal dalla dalle degli dei del dell della delle dello dentro deve
        devo dire dopo dove due ecco era erano ero essere fanno fare fatto fino forse fra giorno già
        gli grazie hai hanno ieri infatti insieme invece loro mai male meglio meno mentre mia mie
        miei mio molta molte molti molto negli nel nella nelle nessun nessuno niente noi non nostra
        nostro nulla oggi ogni oltre oppure ora per perché però più poco poi posso poter potrebbe
        presso prima proprio prossimo può qua qualche qualcosa qualcuno quale quali quando quanto
        quasi quella quelle quelli quello questa queste questi questo qui quindi sapere sarebbe sarà
        sei sembra sempre senza sia siamo siete solo sono sopra sotto sta stai stanno stata stato
        stesso sto sua sue sugli sui sul sulla sulle suo suoi tanto tempo tra tre troppo tua tue tuo
        tutta tutte tutti tutto una uno vai vedere verso via voi volta vorrei vostra vostro
    """,
    "nl": """
        aan achter alle alleen alles als altijd ander andere anders bedankt beetje ben best beter
        bij bijna bijvoorbeeld daar dag dan dank dankjewel dat deze die dit doe doen doet door dus
        echt een eens eerst eigenlijk elkaar elke erg even gaan gaat gedaan geen gewoon gezien goed
        goede graag haar had hadden heb hebben hebt heeft heel helemaal hem hen het hier hij hoe hoi
        hun iedereen iemand iets ikzelf inderdaad jaar jij jou jouw jullie kan keer klopt komen komt
        krijgen kun kunnen laat laten maak maar maken man mee meer meest men met mij mijn misschien
        moet moeten mogelijk morgen naar nee net niet niets nodig nog nou omdat ondanks onder ons
        onze ook over pas per precies prima samen sinds snel soms staan staat steeds straks tegen
        tenminste terug tijdens toch toen tot tussen uit van vanaf vandaag veel verder via vind
        volgende volgens voor waar waarom wanneer want waren was wat weer weet wel welke werd wie
        wij wil willen worden wordt zal zeer zeg zeggen zei zelf zich zie zien zij zijn zit zoals
        zou zouden zullen
    """,
    "sv": """
        alla allt alltid alltså andra att bara behöver ber blev bli blir bra båda både bör dag dem
        den denna deras dess dessa det detta dig din dina ditt dom där därför efter eftersom eller
        enda era ett fanns fick finns fler flera fram från får för före ganska genom ger gick gjorde
        gjort gärna går gör göra hade han hans har hej hela helt henne hennes heter hitta hon honom
        hos hur här håller hög idag igen imorgon inga ingen ingenting inget innan inte jag just kan
        kanske kom kommer kunde kunna känns köra lika lite låter man med medan mellan men mer mest
        mig min mina mindre mitt mot mycket måste möjligt nej nog när nästa någon något några och
        också oss redan riktigt rätt samma samt sedan sen ser sig sin sina sitt ska skulle som stor
        säga säger sätt sådan tack tar till tills tog tror tycker under upp utan vad var vara varför
        varit varje vart vem verkar vet vid vidare vilka vilken vilket vill ville väl vår våra vårt
        ändå även över
    """,
    "pl": """
        aby albo ale ani bardzo bez brak być był była było były będzie będą cała cały chce chcę
        chyba ciągle coś czasem czego cześć czy czyli często dalej dla dlaczego dlatego dobra dobry
        dobrze dopiero dość dużo dzień dzisiaj dzięki dziękuję dziś gdy gdyby gdzie hej ich ile inne
        inny jak jaka jakie jakiś jako jeden jedna jednak jedno jego jej jem jest jestem jesteśmy
        jeszcze jeśli jeżeli jutro już każdy kiedy kilka kto ktoś która które którego której który
        których którym lub mają mam mamy masz mieć mnie mogą mogę moja moje może możemy można musi
        mój nad nam nami nas nasz nasza nasze nawet nic nich nie niech niego niej niestety nigdy nim
        niż nowy obok około ona one oni ono oraz pan pani pod podczas potem powinien poza proszę
        przed przede przez przy raczej raz razem sam sama samo się skąd sobie super swoje szybko tak
        taka takie także tam tego tej tem ten teraz też tobie trochę trzeba tutaj twój tych tylko
        tym wam was wasz wczoraj wiem więc więcej wszyscy wszystko właśnie zawsze zero znowu znów
        został żadna żadne żadnych żeby
    """,
}

STOP_WORDS: Final = frozenset(word for listed in _LISTS.values() for word in listed.split())
