// The style sheet of report.html. Light and dark by the reader's preference; prints well.
#pragma once

#include <string_view>

namespace muster {

inline constexpr std::string_view kReportStyle = R"css(
:root{--page:#f6f6f4;--card:#ffffff;--ink:#1c1c1a;--soft:#62615c;--line:#e2e1dc;--accent:#1f66c1;
--pale:#a9c6ec;--warn:#b3261e;--code:#f3f2ef;
--h0:#d6e8d8;--h1:#e9edf3;--h2:#c6d6ec;--h3:#9dbbe3;--h4:#f0c987;--h5:#e79a4c;--h6:#d65f3c;--h7:#a81f3c}
@media (prefers-color-scheme:dark){:root{--page:#121211;--card:#1b1b19;--ink:#ecebe7;--soft:#a5a49d;
--line:#34332f;--accent:#74a9f2;--pale:#35577f;--warn:#ff8a80;--code:#242320;
--h0:#234a2b;--h1:#2b3038;--h2:#2f4566;--h3:#3f639a;--h4:#8a6418;--h5:#bd7524;--h6:#dd6a41;--h7:#ff6f86}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",
Roboto,"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1000px;margin:0 auto;padding:32px 20px 64px}
header h1{font-size:28px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}
header p{margin:2px 0;color:var(--soft);overflow-wrap:anywhere}
header .outcome{color:var(--ink);font-size:16px;margin-top:10px}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px;
margin-top:18px}
h2{font-size:17px;margin:0 0 2px}
h3{font-size:14px;margin:16px 0 4px}
.lead{color:var(--soft);margin:0 0 12px;font-size:14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin-top:18px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.tile b{display:block;font-size:21px;white-space:nowrap;line-height:1.25;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
svg{display:block;width:100%;height:auto;overflow:visible}
.wide{overflow-x:auto}
.wide>svg{min-width:620px}
.grid{stroke:var(--line);stroke-width:1}
.axis{stroke:var(--soft);stroke-width:1}
.tick{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
.raw{fill:none;stroke:var(--pale);stroke-width:1.25}
.main{fill:none;stroke:var(--accent);stroke-width:2;stroke-linejoin:round}
.held-out{fill:var(--card);stroke:var(--ink);stroke-width:2}
.mark{stroke:var(--warn);stroke-width:1.5;stroke-dasharray:4 3}
.hit{fill:transparent}
.hit:hover{fill:var(--ink);fill-opacity:.07}
.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}
.h4{fill:var(--h4)}.h5{fill:var(--h5)}.h6{fill:var(--h6)}.h7{fill:var(--h7)}
.in{fill:#fff;font-size:13px;font-weight:600}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;color:var(--soft);font-size:13px;margin:6px 0 0}
.key i{display:inline-block;width:18px;height:0;border-top:2px solid;margin-right:6px;vertical-align:middle}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;font-weight:600;color:var(--soft);font-size:13px;white-space:nowrap}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.name{white-space:nowrap}
td.any{overflow-wrap:anywhere}
tr.sum td{font-weight:600}
.swatch{display:inline-block;width:11px;height:11px;margin-right:8px;vertical-align:-1px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
pre{background:var(--code);border-radius:6px;padding:12px 14px;margin:6px 0 0;white-space:pre-wrap;
overflow-wrap:anywhere}
pre .given{color:var(--soft)}
pre .made{font-weight:600}
summary{cursor:pointer;color:var(--soft);font-size:14px}
.problem{color:var(--warn)}
footer{color:var(--soft);font-size:13px;margin-top:20px}
.leaf-step-compute{fill:#1f66c1;color:#1f66c1}
.leaf-step-exposed-comm{fill:#b0570a;color:#b0570a}
.leaf-step-straggler-wait{fill:#8a4fbf;color:#8a4fbf}
.leaf-step-exposed-data{fill:#0f7f72;color:#0f7f72}
.leaf-step-exposed-ckpt{fill:#5a7a12;color:#5a7a12}
.leaf-step-host-gap{fill:#5d7590;color:#5d7590}
.leaf-eval{fill:#2f8247;color:#2f8247}
.leaf-ckpt-block{fill:#857017;color:#857017}
.leaf-restore{fill:#a0447c;color:#a0447c}
.leaf-init-device{fill:#5b5fb5;color:#5b5fb5}
.leaf-init-rendezvous{fill:#7276c4;color:#7276c4}
.leaf-init-compile{fill:#484c99;color:#484c99}
.leaf-init-first-step-extra{fill:#7d6fb0;color:#7d6fb0}
.leaf-provision{fill:#77778f;color:#77778f}
.leaf-queue{fill:#8d8d9c;color:#8d8d9c}
.leaf-hang{fill:#c62f2f;color:#c62f2f}
.leaf-evict{fill:#cf4f1f;color:#cf4f1f}
.leaf-rework{fill:#9d1c4a;color:#9d1c4a}
.leaf-idle{fill:#85847e;color:#85847e}
.leaf-other{fill:#6b6a65;color:#6b6a65}
@media print{body{background:#fff}section,.tile{break-inside:avoid}}
)css";

}  // namespace muster
