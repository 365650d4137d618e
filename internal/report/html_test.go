package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/bundle/bundletest"
	"github.com/squallhq/squall/event"
	"github.com/squallhq/squall/verdict"
)

// pageOf writes the report of a shop to disk and returns its path.
func pageOf(t *testing.T, o bundletest.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := HTML(f, shop(t, o)); err != nil {
		t.Fatal(err)
	}
	return path
}

func wellBehaved(t *testing.T, c *chromium) {
	t.Helper()
	for _, line := range c.complaints() {
		t.Errorf("the browser complains: %s", line)
	}
}

func TestPageInLightAndDark(t *testing.T) {
	c := newChromium(t)
	path := pageOf(t, bundletest.Options{})
	for _, dark := range []bool{false, true} {
		name := map[bool]string{false: "light", true: "dark"}[dark]
		c.open(path, view{width: 1440, height: 900, dark: dark})
		c.shot("overview-"+name, true)
		if got := c.text("h1"); got != "1 of 12 leaves fails: order 17 was confirmed, never written, in create_order under disk_full." {
			t.Errorf("headline %q", got)
		}
		if n := c.number(`document.querySelectorAll(".matrix a.cell").length`); n != 12 {
			t.Errorf("%v cells", n)
		}
		c.click(`.matrix a.cell.fail`)
		c.until(`document.querySelector("#events .row.witness") !== null`)
		if n := c.number(`document.querySelectorAll(".panel .timeline").length`); n != 1 {
			t.Errorf("the leaf is shown %v times", n)
		}
		if hash := c.eval("location.hash"); hash != "#leaf="+bundletest.Failing {
			t.Errorf("hash %v", hash)
		}
		if c.number(`document.querySelector(".matrix").getBoundingClientRect().width`) == 0 {
			t.Error("the matrix is not beside the leaf")
		}
		c.shot("leaf-"+name, false)
		low := c.number(contrast)
		if low < 4.5 {
			t.Errorf("%s: a text has contrast %.2f, below 4.5: %v", name, low, c.eval("window.lowest"))
		}
	}
	wellBehaved(t, c)
}

// contrast finds the least contrast of any text with the ground behind it (WCAG 2, relative luminance).
const contrast = `(() => {
	const lum = c => { const f = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
	const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const over = (colours) => { canvas.clearRect(0, 0, 1, 1); for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); } return canvas.getImageData(0, 0, 1, 1).data; };
	let least = 99;
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.matches(".off, script, style") || !e.checkVisibility()) continue;
		const grounds = [];
		for (let p = e; p; p = p.parentElement) grounds.unshift(getComputedStyle(p).backgroundColor);
		const a = lum(over(grounds)), b = lum(over([...grounds, getComputedStyle(e).color]));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < least) { least = ratio; window.lowest = e.className + ": " + e.textContent.slice(0, 40); }
	}
	return least;
})()`

func TestPageAt360Pixels(t *testing.T) {
	c := newChromium(t)
	c.open(pageOf(t, bundletest.Options{}), view{width: 360, height: 740, mobile: true})
	narrow := func(where string) {
		t.Helper()
		if out := c.eval(`[...document.querySelectorAll(".card *, .panel .story *, .matrix tbody th")].filter(e => e.getBoundingClientRect().right > 361 && !e.closest(".command, pre")).length`); out != 0.0 {
			t.Errorf("%s has %v elements beyond its edge", where, out)
		}
		if w := c.number("document.documentElement.scrollWidth"); w > 360 {
			t.Errorf("%s is %v pixels wide: %v", where, w, c.eval(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > 361 && !e.closest(".scroll, .command, pre")).map(e => e.tagName + "." + e.className).join(" ")`))
		}
	}
	narrow("the overview")
	c.shot("narrow-overview", true)
	c.click(".matrix a.cell.fail")
	c.until(`document.querySelector("#events .row.witness") !== null`)
	narrow("the leaf")
	c.shot("narrow-leaf", true)
	c.open(pageOfWord(t, strings.Repeat("a_rather_long_name_", 3)), view{width: 360, height: 740, mobile: true})
	narrow("the overview of long names")
	if x := c.number(`document.querySelector(".matrix a.cell").getBoundingClientRect().right`); x > 360 {
		t.Errorf("the matrix shows no cell beside a long name; the first ends at %v", x)
	}
	c.click(".matrix a.cell.fail")
	c.until(`document.querySelector("#events .row.witness") !== null`)
	narrow("a leaf of long names")
	c.shot("narrow-long", true)
	wellBehaved(t, c)
}

// A person without a mouse reaches the failing leaf, walks its events and comes back.
func TestPageByKeyboardAlone(t *testing.T) {
	c := newChromium(t)
	c.open(pageOf(t, bundletest.Options{}), view{width: 1280, height: 800})
	c.press("Tab")
	if got := c.text(":focus"); got != "Skip to the matrix" {
		t.Errorf("the first stop is %q", got)
	}
	tabTo := func(selector string, limit int) {
		t.Helper()
		for range limit {
			if c.eval(fmt.Sprintf(`document.activeElement?.matches(%q)`, selector)) == true {
				return
			}
			c.press("Tab")
		}
		t.Fatalf("%s is not reached with %d tabs; the focus is on %v", selector, limit, c.eval("document.activeElement?.outerHTML.slice(0, 120)"))
	}
	c.press("Enter")
	tabTo(".matrix a.cell.fail", 12)
	if c.eval(`getComputedStyle(document.activeElement).outlineStyle`) == "none" {
		t.Error("the focus cannot be seen")
	}
	c.press("Enter")
	c.until(`document.querySelector("#events .row") !== null`)
	if got := c.eval("document.activeElement?.id"); got != "leaf-title" {
		t.Errorf("the focus is on %v, not on the leaf's title", got)
	}
	tabTo(".lanes", 30)
	before := c.text(".detail")
	c.press("ArrowLeft")
	c.until(fmt.Sprintf("document.querySelector('.detail').innerText !== %q", before))
	c.press("+")
	c.press("0")
	tabTo("#events", 12)
	c.press("End")
	c.until(`document.querySelector("#events [aria-selected=true]") !== null && document.querySelector("#events").getAttribute("aria-activedescendant")`)
	if c.text("#announce") == "" {
		t.Error("a screen reader hears nothing of the chosen event")
	}
	c.press("Escape")
	c.until("document.querySelector('#panel').hidden")
	if c.eval(`document.activeElement?.matches(".matrix a.cell.fail")`) != true {
		t.Error("the focus does not come back to the cell")
	}
	if hash := c.eval("location.hash"); hash != "" {
		t.Errorf("hash %v", hash)
	}
	wellBehaved(t, c)
}

func TestPageWithManyEvents(t *testing.T) {
	c := newChromium(t)
	path := pageOf(t, bundletest.Options{Extra: 100_000})
	c.open(path, view{width: 1440, height: 900})
	c.eval(`window.opened = new Promise(done => {
		const begin = performance.now();
		document.querySelector(".matrix a.cell.fail").click();
		const look = () => document.querySelector("#events .row") && document.querySelector(".lanes canvas")?.width > 300
			? requestAnimationFrame(() => done(performance.now() - begin)) : setTimeout(look, 5);
		look(); }), true`)
	if ms := c.number("window.opened"); ms > 3000 {
		t.Errorf("the leaf opens in %.0f ms", ms)
	} else {
		t.Logf("the leaf opens in %.0f ms", ms)
	}
	c.shot("many", false)
	if n := c.number(`document.querySelectorAll("#events .row").length`); n > 200 {
		t.Errorf("%v rows exist at once", n)
	}
	c.eval(`document.querySelector("#events").scrollTop = 1e9`)
	c.until(`[...document.querySelectorAll("#events .row")].some(r => r.getAttribute("aria-posinset") === r.getAttribute("aria-setsize"))`)
	if n := c.number(`Number(document.querySelector("#events .row").getAttribute("aria-setsize"))`); n < 100_000 {
		t.Errorf("%v rows in all", n)
	}
	frames := c.number(`new Promise(done => {
		const list = document.querySelector("#events"); list.scrollTop = 0; let worst = 0, n = 0, before = performance.now();
		const step = () => { const now = performance.now(); worst = Math.max(worst, now - before); before = now; list.scrollTop += 5000; if (++n < 60) requestAnimationFrame(step); else done(worst); };
		requestAnimationFrame(step); })`)
	t.Logf("the worst frame of scrolling took %.0f ms", frames)
	if frames > 1000 {
		t.Errorf("scrolling stands still for %.0f ms", frames)
	}
	c.eval(`(() => { const s = document.querySelector("#search"); s.value = "confirmed order"; s.dispatchEvent(new Event("input")); })()`)
	c.until(`document.querySelector(".tally").textContent.startsWith("2 of")`)
	c.until(`document.querySelectorAll("#events .row").length === 2`)
	c.shot("many-search", false)
	wellBehaved(t, c)
}

func TestFiltersZoomAndCopy(t *testing.T) {
	c := newChromium(t)
	c.open(pageOf(t, bundletest.Options{}), view{width: 1440, height: 900})
	c.eval(`navigator.clipboard.writeText = async (text) => { window.copied = text }`)
	c.click(".head .copy")
	c.until(`document.querySelector(".head .copy").textContent === "Copied"`)
	if got, _ := c.eval("window.copied").(string); !strings.HasPrefix(got, "squall replay ") || !strings.HasSuffix(got, " --leaf 7c1e") {
		t.Errorf("copied %q", got)
	}
	c.click(".matrix a.cell.fail")
	c.until(`document.querySelector("#events .row.witness") !== null`)
	tally := func() string { return c.text(".tally") }
	all := tally()
	choose := func(label, option string) {
		c.eval(fmt.Sprintf(`(() => { const s = document.querySelector('select[aria-label="%s"]'); s.value = [...s.options].find(o => o.text === %q).value; s.dispatchEvent(new Event("change")); })()`, label, option))
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"only syscalls", func() { choose("all kinds", "syscall") }, "1 of "},
		{"all kinds again", func() { choose("all kinds", "all kinds") }, ""},
		{"one link", func() { choose("all links", "api → db") }, "2 of "},
		{"all links again", func() { choose("all links", "all links") }, ""},
		{"only faults", func() {
			c.eval(`[...document.querySelectorAll(".toolbar .toggle")].find(b => b.textContent === "only faults").click()`)
		}, "1 of "},
		{"faults without db", func() {
			c.eval(`[...document.querySelectorAll(".toolbar .toggle")].find(b => b.textContent === "db").click()`)
		}, "0 of "},
	} {
		step.do()
		if got := tally(); step.want == "" && got != all || !strings.HasPrefix(got, step.want) {
			t.Errorf("%s: %q, want %q (all is %q)", step.what, got, step.want, all)
		}
	}
	if c.text("#events") != "Nothing passes this filter." {
		t.Errorf("an empty list says %q", c.text("#events"))
	}
	picture := func() any {
		c.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
		return c.eval(`document.querySelector(".lanes canvas").toDataURL()`)
	}
	before := picture()
	c.click(`[aria-label^="Zoom in"]`)
	if picture() == before {
		t.Error("zooming in changes nothing")
	}
	c.click(`[aria-label^="Show all"]`)
	if picture() != before {
		t.Error("showing all again is not what it was")
	}
	c.eval(`document.querySelector(".lanes").dispatchEvent(new WheelEvent("wheel", { deltaY: -120, ctrlKey: true, cancelable: true }))`)
	if picture() == before {
		t.Error("the wheel changes nothing")
	}
	wellBehaved(t, c)
}

func TestPageOpensTheLeafOfItsAddressAndPrints(t *testing.T) {
	c := newChromium(t)
	path := pageOf(t, bundletest.Options{})
	c.open(path+"#leaf="+bundletest.Open, view{width: 1280, height: 900})
	c.until(`document.querySelector("#events .row") !== null`)
	if got := c.text(".panel .sentence"); got != "fault-never-fired: no connection api -> db in this leaf" {
		t.Errorf("sentence %q", got)
	}
	c.shot("open-leaf", false)
	c.click(".panel .close")
	c.until("document.querySelector('#panel').hidden")
	c.call("Emulation.setEmulatedMedia", map[string]any{"media": "print"})
	c.shot("print", true)
	if c.eval(`document.querySelector(".card .story").checkVisibility() && !document.querySelector(".copy").checkVisibility()`) != true {
		t.Error("on paper the story is missing, or a button is there")
	}
	wellBehaved(t, c)
}

// What a program printed, or a hostile bundle says, stays text.
// pageOfWord makes a page on which every name and text is the same word.
func pageOfWord(t *testing.T, word string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "word.squall")
	w, err := bundle.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.Plan(bundle.Plan{Source: word, Services: []bundle.PlanService{{Name: word, Interfaces: []bundle.PlanInterface{{Name: word}}}},
		Assumptions: []bundle.PlanAssumption{{Name: word, Doc: word, Effects: []string{word}}},
		Leaves:      []bundle.PlanLeaf{{ID: "aa", Scenario: word, Assumption: word}}}))
	l, err := w.Leaf("aa")
	must(err)
	must(l.Event(event.Event{Seq: 1, Service: word, Kind: event.Stdout, Fields: map[string]any{"line": word, word: word}}))
	must(l.Log("api", []byte(word)))
	must(l.Close(bundle.Leaf{ID: "aa", Scenario: word, Assumption: word, Result: word,
		Verdict:    verdict.Verdict{Outcome: verdict.Fail, Reasons: []verdict.Reason{{Code: verdict.AssertionFailed, Detail: word, Subject: word, Witness: 1, Position: word}}},
		Rules:      []bundle.RuleRecord{{ID: word, Target: word, Effect: word}},
		Properties: []bundle.PropertyRecord{{Name: word, Kind: word, Result: word, Message: word}}}, nil))
	must(w.Close(bundle.Manifest{Complete: true, Source: word, Tool: word, Environment: map[string]string{"x": word}}))
	r, err := bundle.Open(path)
	must(err)
	defer r.Close()
	page := filepath.Join(t.TempDir(), "word.html")
	f, err := os.Create(page)
	must(err)
	must(HTML(f, r))
	must(f.Close())
	return page
}

func TestHostileTextStaysText(t *testing.T) {
	const evil = `</script><script>window.owned=1</script><img src=x onerror="window.owned=1">"'&{{.}}`
	page := pageOfWord(t, evil)
	c := newChromium(t)
	c.open(page, view{width: 1280, height: 900})
	c.click(".matrix a.cell")
	c.until(`document.querySelector("#events .row") !== null`)
	if got := c.eval("window.owned ?? null"); got != nil {
		t.Error("a bundle's text ran as code")
	}
	if n := c.number(`document.querySelectorAll("img").length`); n != 0 {
		t.Errorf("%v images", n)
	}
	if got := c.text("#events .what"); got != evil {
		t.Errorf("the line reads %q", got)
	}
	wellBehaved(t, c)
}

func TestPageIsWholeWithoutItsScript(t *testing.T) {
	var out bytes.Buffer
	if err := HTML(&out, shop(t, bundletest.Options{})); err != nil {
		t.Fatal(err)
	}
	static, _, _ := strings.Cut(out.String(), "<script")
	plain := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(static, "")
	for _, want := range []string{
		"1 of 12 leaves fails", "--leaf 7c1e", "no space left on device", "witness", "fault-never-fired",
		"latency(", "never exercised", "What was not tested", "SHA-256", "6.8.0", "[redacted]",
	} {
		if !strings.Contains(plain, want) {
			t.Errorf("without the script there is no %q", want)
		}
	}
	for _, bad := range []string{"http://", "https://", "@import", "url("} {
		if strings.Contains(strings.ReplaceAll(static, "http://db:5432", ""), bad) {
			t.Errorf("the page refers to something outside: %s", bad)
		}
	}
}

func TestSentence(t *testing.T) {
	leaf := func(o verdict.Outcome, c verdict.Code) bundle.Leaf {
		l := bundle.Leaf{Scenario: "s", Assumption: "a", Verdict: verdict.Verdict{Outcome: o}}
		if c != "" {
			l.Verdict.Reasons = []verdict.Reason{{Code: c, Detail: "why."}}
		}
		return l
	}
	pass, fail := leaf(verdict.Pass, ""), leaf(verdict.Fail, verdict.MonitorViolated)
	open, stopped := leaf(verdict.Inconclusive, verdict.Timeout), leaf(verdict.Inconclusive, verdict.Interrupted)
	for _, tc := range []struct {
		leaves []bundle.Leaf
		want   string
	}{
		{nil, "Nothing was tested: no leaf was run."},
		{[]bundle.Leaf{pass}, "The one leaf passes."},
		{[]bundle.Leaf{pass, pass}, "All 2 leaves pass."},
		{[]bundle.Leaf{fail}, "The one leaf fails: why, in s under a."},
		{[]bundle.Leaf{pass, fail, fail}, "2 of 3 leaves fail: why, first in s under a."},
		{[]bundle.Leaf{fail, open}, "1 of 2 leaves fails: why, in s under a."},
		{[]bundle.Leaf{pass, open}, "1 of 2 leaves is inconclusive: why, in s under a."},
		{[]bundle.Leaf{pass, stopped}, "The run was stopped: 1 of 2 leaves is not decided."},
		{[]bundle.Leaf{fail, stopped}, "1 of 2 leaves fails: why, in s under a. The run was stopped with 1 leaf undecided."},
	} {
		if got := Sentence(bundle.Verdicts{Leaves: tc.leaves}); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestAHeadlineStaysOne(t *testing.T) {
	leaf := bundle.Leaf{Scenario: "s", Assumption: bundle.Baseline, Verdict: failed(strings.Repeat("word ", 500))}
	if got := Sentence(bundle.Verdicts{Leaves: []bundle.Leaf{leaf}}); len(got) > 160 || !strings.HasSuffix(got, "…, in s.") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}

func TestCausesComeFromClocks(t *testing.T) {
	l := event.NewLog(func() time.Duration { return 0 })
	a := l.Append("a", event.Note, nil)
	b := l.Append("b", event.Note, nil, a.Seq)
	l.Append("c", event.Note, nil)
	d := l.Append("c", event.Note, nil, a.Seq, b.Seq)
	l.Append("c", event.Note, nil)
	got := causes(l.All())
	if len(got) != 2 || fmt.Sprint(got[b.Seq]) != "[1]" || fmt.Sprint(got[d.Seq]) != "[2]" {
		t.Errorf("causes %v", got)
	}
}

// A clock from a stranger's bundle may say anything; it must not lead out of the log.
func TestCausesOfClocksThatCannotBe(t *testing.T) {
	got := causes([]event.Event{
		{Seq: 1, Service: "a", Clock: event.Clock{"a": 1}},
		{Seq: 2, Service: "b", Clock: event.Clock{"a": -9}},
		{Seq: 3, Service: "b", Clock: event.Clock{"a": -3, "x": 7, "b": 1 << 62}},
	})
	if len(got) != 0 {
		t.Errorf("causes %v", got)
	}
}
