(function () {
  "use strict";
  var $ = function (id) { return document.getElementById(id); };
  if (!$("numbers")) { return; }
  var data = JSON.parse($("numbers").textContent), n = data.tp.length, slider = $("threshold");
  var rows = data.tp[0] + data.fp[0] + data.fn[0] + data.tn[0];
  // a figure says where its axes are: left, right, top and bottom
  function ends(id) { return $(id).dataset.box.split(" ").map(Number); }
  function across(box, x) { return box[0] + x * (box[1] - box[0]); }
  function up(box, y) { return box[3] - y / 1.02 * (box[3] - box[2]); }
  function share(a, b) { return b ? a / b : 0; }
  function percent(x) { return (100 * x).toFixed(1) + "\u00a0%"; }
  function cost(k) {
    var fp = Math.max(0, +$("cost-fp").value || 0), fn = Math.max(0, +$("cost-fn").value || 0);
    return (fp * data.fp[k] + fn * data.fn[k]) / rows;
  }
  function put(id, x, y) {
    var mark = $(id), box = mark && ends(id);
    if (mark) { mark.setAttribute("cx", across(box, x)); mark.setAttribute("cy", up(box, y)); }
  }
  function show() {
    var k = Math.round(100 * slider.value) - 1, costs = [], best = 0;
    for (var j = 0; j < n; j += 1) {
      costs.push(cost(j));
      if (costs[j] < costs[best] - 1e-12) { best = j; }
    }
    var tp = data.tp[k], fp = data.fp[k], fn = data.fn[k], tn = data.tn[k];
    [["tp", tp], ["fp", fp], ["fn", fn], ["tn", tn]].forEach(function (pair) {
      $("n-" + pair[0]).textContent = pair[1].toLocaleString("en");
    });
    $("threshold-value").textContent = ((k + 1) / 100).toFixed(2);
    $("r-recall").textContent = percent(share(tp, tp + fn));
    $("r-precision").textContent = tp + fp ? percent(share(tp, tp + fp)) : "none";
    $("r-fpr").textContent = percent(share(fp, fp + tn));
    $("r-error").textContent = percent(share(fp + fn, rows));
    $("r-cost").textContent = (100 * costs[k]).toPrecision(3);
    $("best").textContent = ((best + 1) / 100).toFixed(2);
    $("use-best").dataset.at = best;
    put("at-roc", share(fp, fp + tn), share(tp, tp + fn));
    put("at-pr", share(tp, tp + fn), share(tp, tp + fp));
    var most = Math.max.apply(null, costs.concat([1e-12])) * 1.05;
    put("at-cost", (k + 1) / 100, costs[k] / most);
    var box = ends("at-cost");
    document.querySelector("#cost-line path").setAttribute("d", "M" + costs.map(function (c, j) {
      return across(box, (j + 1) / 100).toFixed(1) + "," + up(box, c / most).toFixed(1);
    }).join("L"));
  }
  $("tool").addEventListener("input", show);
  $("use-best").addEventListener("click", function () {
    slider.value = (+this.dataset.at + 1) / 100;
    show();
  });
  show();
}());
