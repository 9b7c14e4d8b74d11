"""Style of a report's page."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2730; --soft: #5b6875; --page: #ffffff; --card: #f5f7f9;
  --rule: #dde3e8; --main: #2463a6; --other: #a3b1be; --waste: #d9a548; --bad: #a3341f; --warn: #fdf3e1;
  --good: #1f7a4d; --fair: #8a5a00; --poor: #a3341f; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e3e8ed; --soft: #9aa7b3; --page: #14191e;
  --card: #1d242b;
  --rule: #323c46; --main: #6ba6e6; --other: #596774; --waste: #b9873a; --bad: #f0907c; --warn: #33291a;
  --good: #63c394; --fair: #e0b060; --poor: #f0907c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 66rem; background: var(--page); color:
  var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.75rem 0 .75rem; padding-bottom: .3rem; font-size: 1.2rem; border-bottom: 1px solid
  var(--rule); }
p { margin: .5rem 0; max-width: 46rem; }
.about, figcaption, .note { color: var(--soft); font-size: .9rem; }
.verdict { margin: 1.25rem 0 1.5rem; font-size: 1.2rem; line-height: 1.45; }
.verdict p { max-width: none; margin: 0; }
.verdict .why { margin-top: .35rem; font-size: 1rem; color: var(--soft); }
.graded { padding: .8rem 1.1rem; border: 1px solid var(--grade); border-left-width: 8px; border-radius: 6px; }
.good { --grade: var(--good); } .fair { --grade: var(--fair); } .poor { --grade: var(--poor); }
.graded strong { color: var(--grade); }
.graded strong::before { content: "✓ "; } .fair strong::before { content: "~ "; }
.poor strong::before { content: "✕ "; }
a.term { color: inherit; text-decoration: underline dotted; text-underline-offset: .2em; }
a.term abbr { text-decoration: none; }
.glossary { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: .6rem
  2rem; margin: 0; font-size: .92rem; }
.glossary dfn { font-style: normal; font-weight: 600; }
.glossary dd { margin: 0; color: var(--soft); }
.glossary dt:target { outline: 2px solid var(--main); outline-offset: 3px; }
code { font-size: .9em; overflow-wrap: anywhere; }
.seen th[scope=row] { color: var(--ink); }
.seen td { border-left: 4px solid var(--page); padding: .35rem .8rem; }
.seen .rows { border-left-color: var(--bad); } .seen .exact { border-left-color: var(--waste); }
.seen .noisy { border-left-color: var(--main); } .seen .nothing { color: var(--soft); }
.banner { padding: .7rem 1rem; background: var(--warn); border-left: 4px solid var(--waste); max-width:
  none; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .75rem; margin:
  1rem 0 0; }
.tiles div { padding: .8rem 1rem; background: var(--card); border-radius: 6px; }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 0; }
.tiles dd:first-of-type { font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.tiles dd + dd { color: var(--soft); font-size: .85rem; line-height: 1.35; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem
  2.5rem; }
figure { margin: 0; min-width: 0; }
figure > strong { display: block; margin-bottom: .5rem; font-size: .95rem; }
figcaption { margin-top: .4rem; max-width: 46rem; }
svg { max-width: 100%; height: auto; font-size: 12.5px; font-family: inherit; }
svg text { fill: var(--ink); font-variant-numeric: tabular-nums; }
svg .axis { fill: var(--soft); }
svg .grid { stroke: var(--rule); }
svg .line { fill: none; stroke: var(--main); stroke-width: 1.8; stroke-linejoin: round; }
svg .area { fill: var(--main); opacity: .75; }
.main { fill: var(--main); } .other { fill: var(--other); } .waste { fill: var(--waste); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { padding: .35rem 1.1rem .35rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid
  var(--rule); }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide th, .wide th.n { white-space: normal; vertical-align: bottom; }
.wide th, .wide td { padding-right: .8rem; }
.restricted { padding: .75rem 1rem 1rem; border: 1px dashed var(--bad); border-radius:
  6px; }
.restricted strong { color: var(--bad); }
.sheet { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; list-style: none; }
.sheet li { text-align: center; color: var(--soft); font-size: .75rem; line-height: 1.2; }
.sheet img { display: block; width: 3.25rem; height: 3.25rem; border: 1px solid var(--rule);
  image-rendering: pixelated; }
pre { padding: 1rem; overflow-x: auto; background: var(--card); border-radius: 6px; font-size: .85rem; }
summary { cursor: pointer; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) { .wide thead { display: none; } .wide tr { display: block; padding: .5rem 0;
  border-bottom: 1px solid var(--rule); } .wide td, .wide td.n { display: flow-root; padding: .1rem 0 .1rem
  10rem; text-align: left; border: 0; white-space: normal; } .wide td:empty { display: none; }
  .wide td::before { float: left; width: 9rem; margin-left: -10rem; color: var(--soft);
  content: attr(data-name); }
  .seen thead { display: none; } .seen tr, .seen th { display: block; padding: .4rem 0 .1rem; border: 0; }
  .seen tr { border-bottom: 1px solid var(--rule); }
  .seen td { display: flex; gap: .6rem; padding: .15rem .7rem; border-bottom: 0; }
  .seen td::before { flex: 0 0 8.5rem; color: var(--soft); content: attr(data-name); }
  .seen th { white-space: normal; overflow-wrap: anywhere; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } h2 { break-after: avoid; }
  figure, tr, .tiles div, .graded, .glossary div, .restricted { break-inside: avoid; }
  thead { display: table-header-group; } .scroll { overflow: visible; } th { white-space: normal; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; } a.term { text-decoration: none; } }
"""
"""Style of the whole page: system fonts, few colours, light and dark."""
