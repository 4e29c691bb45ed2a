"""The vocabulary as tables: everyday words, written for this project, one entry a line, commonest first.

Rank matters: the sampler draws from each table with Zipf-like weights. `words.py` states the line formats;
a line that starts with a space continues the one before.

Kinds of nouns, which verbs and adjectives choose by: p person, a animal, g group that acts, l place, t thing that can
be handled, i idea, e event, w written or told, f food, d device that is switched, o what opens, b what is built,
c what is washed, v vehicle.
"""

from __future__ import annotations

NOUNS = """
man/men ; der Mann/Männer/Mannes ; m homme ; p male
woman/women ; die Frau/Frauen ; f femme ; p female
teacher ; der Lehrer/Lehrer ; m professeur ; p male
mother ; die Mutter/Mütter ; f mère ; p female
house ; das Haus/Häuser/Hauses ; f maison ; lb
book ; das Buch/Bücher/Buches ; m livre ; tw
city ; die Stadt/Städte ; f ville ; l
child/children ; das Kind/Kinder/Kindes ; m enfant ; p unknown
car ; das Auto/Autos ; f voiture ; tcv
friend ; der Freund/Freunde/Freundes ; m ami ; p male
problem ; das Problem/Probleme ; m problème ; i
company ; die Firma/Firmen ; f entreprise ; g
letter ; der Brief/Briefe/Briefes ; f lettre ; two
door ; die Tür/Türen ; f porte ; ob
idea ; die Idee/Ideen ; f idée ; i
doctor ; der Arzt/Ärzte/Arztes ; m médecin ; p male
dog ; der Hund/Hunde/Hundes ; m chien ; a
sister ; die Schwester/Schwestern ; f sœur ; p female
garden ; der Garten/Gärten ; m jardin ; l
student ; der Student/Studenten/Studenten ; m étudiant ; p male
question ; die Frage/Fragen ; f question ; i
government ; die Regierung/Regierungen ; m gouvernement ; g
school ; die Schule/Schulen ; f école ; lb
story ; die Geschichte/Geschichten ; f histoire ; iw
boy ; der Junge/Jungen/Jungen ; m garçon ; p male
daughter ; die Tochter/Töchter ; f fille ; p female
law ; das Gesetz/Gesetze/Gesetzes ; f loi ; i
window ; das Fenster/Fenster ; f fenêtre ; o
train ; der Zug/Züge/Zuges ; m train ; v
meeting ; die Sitzung/Sitzungen ; f réunion ; e
picture ; das Bild/Bilder/Bildes ; m tableau/tableaux ; t
father ; der Vater/Väter ; m père ; p male
cat ; die Katze/Katzen ; m chat ; a
job ; die Arbeit/Arbeiten ; m travail/travaux ; i
key ; der Schlüssel/Schlüssel ; f clé ; t
market ; der Markt/Märkte/Marktes ; m marché ; l
lamp ; die Lampe/Lampen ; f lampe ; td
neighbour ; der Nachbar/Nachbarn/Nachbarn ; m voisin ; p male
nurse ; die Krankenschwester/Krankenschwestern ; f infirmière ; p female
machine ; die Maschine/Maschinen ; f machine ; td
concert ; das Konzert/Konzerte ; m concert ; e
village ; das Dorf/Dörfer/Dorfes ; m village ; l
plan ; der Plan/Pläne ; m projet ; i
apple ; der Apfel/Äpfel ; f pomme ; tf
brother ; der Bruder/Brüder ; m frère ; p male
newspaper ; die Zeitung/Zeitungen ; m journal/journaux ; tw
kitchen ; die Küche/Küchen ; f cuisine ; l
bicycle ; das Fahrrad/Fahrräder ; m vélo ; tc
answer ; die Antwort/Antworten ; f réponse ; iw
farmer ; der Bauer/Bauern/Bauern ; m agriculteur ; p male
street ; die Straße/Straßen ; f rue ; l
bag ; die Tasche/Taschen ; m sac ; to
rule ; die Regel/Regeln ; f règle ; iw
team ; die Mannschaft/Mannschaften ; f équipe ; g
hospital ; das Krankenhaus/Krankenhäuser/Krankenhauses ; m hôpital/hôpitaux ; lb
horse ; das Pferd/Pferde/Pferdes ; m cheval/chevaux ; a
cake ; der Kuchen/Kuchen ; m gâteau/gâteaux ; tf
bridge ; die Brücke/Brücken ; m pont ; b
exam ; die Prüfung/Prüfungen ; m examen ; ie
queen ; die Königin/Königinnen ; f reine ; p female
table ; der Tisch/Tische/Tisches ; f table ; t
forest ; der Wald/Wälder/Waldes ; f forêt ; l
baker ; der Bäcker/Bäcker ; m boulanger ; p male
festival ; das Fest/Feste/Festes ; f fête ; e
coat ; der Mantel/Mäntel ; m manteau/manteaux ; tc
decision ; die Entscheidung/Entscheidungen ; f décision ; i
computer ; der Computer/Computer ; m ordinateur ; td
bird ; der Vogel/Vögel ; m oiseau/oiseaux ; a
lawyer ; der Anwalt/Anwälte ; m avocat ; p male
bank ; die Bank/Banken ; f banque ; g
factory ; die Fabrik/Fabriken ; f usine ; lb
application ; die Anwendung/Anwendungen ; f application ; i
bottle ; die Flasche/Flaschen ; f bouteille ; to
king ; der König/Könige ; m roi ; p male
task ; die Aufgabe/Aufgaben ; f tâche ; i
library ; die Bibliothek/Bibliotheken ; f bibliothèque ; lb
singer ; die Sängerin/Sängerinnen ; f chanteuse ; p female
boat ; das Boot/Boote/Bootes ; m bateau/bateaux ; tbv
mistake ; der Fehler/Fehler ; f erreur ; i
shirt ; das Hemd/Hemden/Hemdes ; f chemise ; tc
station ; der Bahnhof/Bahnhöfe ; f gare ; lb
journey ; die Reise/Reisen ; m voyage ; e
worker ; der Arbeiter/Arbeiter ; m ouvrier ; p male
aunt ; die Tante/Tanten ; f tante ; p female
cow ; die Kuh/Kühe ; f vache ; a
phone ; das Telefon/Telefone ; m téléphone ; td
court ; das Gericht/Gerichte ; m tribunal/tribunaux ; g
hotel ; das Hotel/Hotels ; m hôtel ; lb
debate ; die Debatte/Debatten ; m débat ; e
chair ; der Stuhl/Stühle ; f chaise ; t
soldier ; der Soldat/Soldaten/Soldaten ; m soldat ; p male
process ; der Prozess/Prozesse/Prozesses ; m processus/processus ; i
museum ; das Museum/Museen ; m musée ; lb
game ; das Spiel/Spiele ; m jeu/jeux ; e
waitress ; die Kellnerin/Kellnerinnen ; f serveuse ; p female
hat ; der Hut/Hüte/Hutes ; m chapeau/chapeaux ; tc
church ; die Kirche/Kirchen ; f église ; lb
knife/knives ; das Messer/Messer ; m couteau/couteaux ; tc
gardener ; der Gärtner/Gärtner ; m jardinier ; p male
clock ; die Uhr/Uhren ; f horloge ; t
castle ; das Schloss/Schlösser/Schlosses ; m château/châteaux ; lb
mouse/mice ; die Maus/Mäuse ; f souris/souris ; a
actress ; die Schauspielerin/Schauspielerinnen ; f actrice ; p female
theatre ; das Theater/Theater ; m théâtre ; lb
storm ; der Sturm/Stürme ; f tempête ; e
registration ; die Anmeldung/Anmeldungen ; f inscription ; i
writer ; der Schriftsteller/Schriftsteller ; m écrivain ; p male
"""

NAMES = "Anna f, Paul m, Maria f, Martin m, Julia f, Thomas m, Clara f, Simon m, Sofia f, Oskar m"

ADJECTIVES = """
old/older ; alt/älter ; < vieux/vieille/vieux/vieil ; palttwbv
new/newer ; neu/neuer ; < nouveau/nouvelle/nouveaux/nouvel ; ltgibdc
small/smaller ; klein/kleiner ; < petit/petite ; altgobf
young/younger ; jung/jünger ; < jeune ; pa
big/bigger ; groß/größer ; < grand/grande ; altgiobe
important ; wichtig ; important/importante ; iewg
good/- ; gut ; < bon/bonne ; iewf
beautiful ; schön ; < beau/belle/beaux/bel ; altob
difficult ; schwierig ; difficile ; i
red/- ; rot ; rouge ; tcvo
happy/happier ; glücklich ; heureux/heureuse ; pa
expensive ; teuer/teurer/teur ; cher/chère ; tdcv
tired/- ; müde/müder/müd ; fatigué/fatiguée ; pa
long/longer ; lang/länger ; < long/longue ; wei
dangerous ; gefährlich ; dangereux/dangereuse ; aiedv
rich/richer ; reich/reicher ; riche ; pg
ill/- ; krank ; malade ; pa
interesting ; interessant ; intéressant/intéressante ; iwe
friendly/- ; freundlich ; gentil/gentille ; p
quiet/quieter ; ruhig ; calme ; pal
famous ; berühmt ; célèbre ; pl
strange/stranger ; seltsam ; étrange ; iw
green/- ; grün ; vert/verte ; tcvo
strong/stronger ; stark/stärker ; fort/forte ; pag
easy/easier ; leicht ; facile ; i
sad/sadder ; traurig ; triste ; pw
poor/poorer ; arm/ärmer ; pauvre ; p
modern ; modern ; moderne ; lbdg
dirty/dirtier ; schmutzig ; sale ; tclv
intelligent ; klug/klüger ; intelligent/intelligente ; pa
black/- ; schwarz ; noir/noire ; tcvoa
empty/- ; leer ; vide ; lo
angry/- ; wütend ; furieux/furieuse ; p
simple/simpler ; einfach ; simple ; id
polite/- ; höflich ; poli/polie ; p
white/- ; weiß ; blanc/blanche ; tcvoa
serious ; ernst ; sérieux/sérieuse ; pi
lazy/lazier ; faul ; paresseux/paresseuse ; pa
funny/funnier ; lustig ; drôle ; pwe
cold/colder ; kalt/kälter ; froid/froide ; lf
"""

TRANSITIVE = """
see saw seen ; sehen sieht sah gesehen ; voir vois voit voyons voient vu verr ; pa > paltvb (involuntary)
buy bought ; kaufen ; acheter achète achète achetons achètent acheté achèter ; pg > tf
love ; lieben ; aimer ; p > pal (stative)
look @for ; suchen ; chercher ; pa > pat
open ; auf|machen ; ouvrir ouvre ouvre ouvrons ouvrent ouvert ouvrir ; p > o
know knew known ; kennen kennt kannte gekannt ; connaître connais connaît connaissons connaissent connu connaîtr ;
 p > plw (stative)
help ; helfen hilft half geholfen (dat) ; aider ; pg > pg
read read ; lesen liest las gelesen ; lire lis lit lisons lisent lu lir ; p > w
find found ; finden findet fand gefunden ; trouver ; pa > pat (involuntary)
have had ; haben hat hatte gehabt ; avoir ai a avons ont eu aur ; p > at (stative)
invite ; ein|laden lädt lud geladen ; inviter ; pg > p
wait @for ; warten @auf ; attendre attends attend attendons attendent attendu attendr ; p > pv
turn +off ; aus|schalten ; éteindre éteins éteint éteignons éteignent éteint éteindr ; p > d
sell sold ; verkaufen verkauft verkaufte verkauft ; vendre vends vend vendons vendent vendu vendr ; pg > tfb
write wrote written ; schreiben schreibt schrieb geschrieben ; écrire écris écrit écrivons écrivent écrit écrir ; p > w
visit ; besuchen besucht besuchte besucht ; visiter ; p > l
talk @about ; sprechen spricht sprach gesprochen @über ; parler @de ; p > pie
understand understood ; verstehen versteht verstand verstanden ;
 comprendre comprends comprend comprenons comprennent compris comprendr ; pg > i (involuntary)
close ; zu|machen ; fermer ; p > o
eat ate eaten ; essen isst aß gegessen ; manger mange mange mangeons mangent mangé manger ; pa > f
call ; an|rufen ruft rief gerufen ; appeler appelle appelle appelons appellent appelé appeller ; p > p
build built ; bauen ; construire construis construit construisons construisent construit construir ; pg > b
forget forgot forgotten ; vergessen vergisst vergaß vergessen ; oublier ; p > ti (involuntary)
support ; unterstützen unterstützt unterstützte unterstützt ;
 soutenir soutiens soutient soutenons soutiennent soutenu soutiendr ; pg > pi
throw threw thrown +away ; weg|werfen wirft warf geworfen ; jeter jette jette jetons jettent jeté jetter ; p > tw
think thought @of ; denken denkt dachte gedacht @an ; penser @à ; p > pi (stative)
prepare ; vor|bereiten bereitet bereitete bereitet ; préparer ; pg > ef
repair ; reparieren repariert reparierte repariert ; réparer ; p > db
listen @to ; zu|hören (dat) ; écouter ; p > p
change ; ändern ändert änderte geändert ; changer change change changeons changent changé changer ; pg > i
lose lost ; verlieren verliert verlor verloren ; perdre perds perd perdons perdent perdu perdr ; p > t (involuntary)
reject ; ab|lehnen ; rejeter rejette rejette rejetons rejettent rejeté rejetter ; pg > i
watch ; beobachten beobachtet beobachtete beobachtet ; observer ; pa > pa
turn +on ; ein|schalten ; allumer ; p > d
wash ; waschen wäscht wusch gewaschen ; laver ; p > ca
propose ; vor|schlagen schlägt schlug geschlagen ; proposer ; pg > i
follow ; verfolgen verfolgt verfolgte verfolgt ; suivre suis suit suivons suivent suivi suivr ; pa > pav
pick +up ; auf|heben hebt hob gehoben ; ramasser ; p > t
thank ; danken (dat) ; remercier ; p > p
protect ; schützen ; protéger protège protège protégeons protègent protégé protéger ; pg > pal
hide hid hidden ; verstecken versteckt versteckte versteckt ; cacher ; p > tw
give gave given +back ; zurück|geben gibt gab gegeben ; rendre rends rend rendons rendent rendu rendr ; p > t
steal stole stolen ; stehlen stiehlt stahl gestohlen ; voler ; p > t
paint ; malen ; peindre peins peint peignons peignent peint peindr ; p > lb
"""

INTRANSITIVE = """
sleep slept ; schlafen schläft schlief geschlafen ; dormir dors dort dormons dorment dormi dormir ; pa
work ; arbeiten ; travailler ; p
arrive ; an|kommen kommt kam gekommen (sein) ; arriver (être) ; pav (involuntary)
live ; leben ; vivre vis vit vivons vivent vécu vivr ; pa (stative)
come came come +back ; zurück|kommen kommt kam gekommen (sein) ;
 revenir reviens revient revenons reviennent revenu reviendr (être) ; pa
laugh ; lachen ; rire ris rit rions rient ri rir ; p
get got got +up ; auf|stehen steht stand gestanden (sein) ; lever lève lève levons lèvent levé lèver (se) ; p
stay ; bleiben bleibt blieb geblieben (sein) ; rester (être) ; pa (involuntary)
leave left ; ab|fahren fährt fuhr gefahren (sein) ; partir pars part partons partent parti partir (être) ; pv
begin began begun ; an|fangen fängt fing gefangen ;
 commencer commence commence commençons commencent commencé commencer ; e (involuntary)
play ; spielen ; jouer ; pa
wake woke woken +up ; auf|wachen wacht wachte gewacht (sein) ; réveiller (se) ; pa
dance ; tanzen ; danser ; p
run ran run ; laufen läuft lief gelaufen (sein) ; courir cours court courons courent couru courr ; pa
disappear ; verschwinden verschwindet verschwand verschwunden (sein) ;
 disparaître disparais disparaît disparaissons disparaissent disparu disparaîtr ; pat (involuntary)
hurry ; beeilen beeilt beeilte beeilt (sich) ; dépêcher (se) ; p
cry ; weinen ; pleurer ; p
go went gone +out ; aus|gehen geht ging gegangen (sein) ; sortir sors sort sortons sortent sorti sortir (être) ; p
travel travelled ; reisen reist reiste gereist (sein) ; voyager voyage voyage voyageons voyagent voyagé voyager ; p
die ; sterben stirbt starb gestorben (sein) ; mourir meurs meurt mourons meurent mort mourr (être) ; pa (involuntary)
"""

# The goal is a phrase with "to", "zu" and "à".
MOTION = """
go went gone ; gehen geht ging gegangen (sein) ; aller vais va allons vont allé ir (être) ; p > l
return ; zurück|gehen geht ging gegangen (sein) ; retourner (être) ; p > l
"""

DITRANSITIVE = """
give gave given ; geben gibt gab gegeben ; donner ; p > t
show showed shown ; zeigen ; montrer ; p > tw
send sent ; schicken ; envoyer envoie envoie envoyons envoient envoyé enverr ; pg > tw
explain ; erklären erklärt erklärte erklärt ; expliquer ; p > i
bring brought ; bringen bringt brachte gebracht ; apporter ; p > tf
lend lent ; leihen leiht lieh geliehen ; prêter ; p > t
promise ; versprechen verspricht versprach versprochen ;
 promettre promets promet promettons promettent promis promettr ;
 p > t
"""

REPORTING = """
say said ; sagen ; dire dis dit disons disent dit dir ; pg
think thought ; denken denkt dachte gedacht ; penser ; p (stative)
know knew known ; wissen weiß wusste gewusst ; savoir sais sait savons savent su saur ; p (stative)
believe ; glauben ; croire crois croit croyons croient cru croir ; p (stative)
hope ; hoffen ; espérer espère espère espérons espèrent espéré espérer ; pg (stative)
claim ; behaupten behauptet behauptete behauptet ; affirmer ; pg
"""

CAUSATIVE = "make made ; machen ; rendre rends rend rendons rendent rendu rendr ; pgi > i"

ADVERBS = {
    "past": "yesterday gestern hier, suddenly plötzlich soudain",
    "future": "tomorrow morgen demain, soon bald bientôt",
    "present": "today heute aujourd'hui, now jetzt maintenant",
    "frequency": "often oft souvent, always immer toujours, sometimes manchmal parfois, rarely selten rarement",
    "manner": "slowly langsam lentement, quickly schnell rapidement, quietly leise doucement, "
    "carefully vorsichtig prudemment, gladly gern volontiers",
    "comment": "unfortunately leider malheureusement, naturally natürlich naturellement, "
    "fortunately zum_Glück heureusement",
}
