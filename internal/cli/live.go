package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/squallhq/squall"
	"github.com/squallhq/squall/bundle"
	"github.com/squallhq/squall/internal/vtime"
	"github.com/squallhq/squall/verdict"
)

// redraw is how often the view is drawn again while nothing happens; pipeEvery how often a pipe gets
// a line.
const (
	redraw    = 100 * time.Millisecond
	pipeEvery = 10 * time.Second
)

// live shows a run while it goes on: on a terminal a line for each running leaf and one with the
// counts, redrawn in place and gone at the end; in a pipe a line of counts now and then.
type live struct {
	out, err io.Writer
	style    style
	source   string
	// cost writes what a plan costs, once it is known.
	cost  func(io.Writer, bundle.Plan)
	clock vtime.Clock

	updates chan squall.Progress
	done    chan struct{}

	plan    bundle.Plan
	running map[string]runningLeaf
	counts  map[verdict.Outcome]int
	drawn   int
}

type runningLeaf struct {
	leaf  bundle.PlanLeaf
	phase string
	since time.Duration
}

func newLive(out, err io.Writer, s style, source string) *live {
	v := &live{
		out: out, err: err, style: s, source: source, clock: vtime.Wall(),
		updates: make(chan squall.Progress), done: make(chan struct{}),
		running: map[string]runningLeaf{}, counts: map[verdict.Outcome]int{},
	}
	go v.loop()
	return v
}

func (v *live) observe(p squall.Progress) { v.updates <- p }

// stop clears what was drawn and returns once nothing more is written.
func (v *live) stop() {
	close(v.updates)
	<-v.done
}

func (v *live) loop() {
	defer close(v.done)
	every := pipeEvery
	if v.style.live {
		every = redraw
	}
	for {
		tick, cancel := v.clock.After(every)
		select {
		case p, ok := <-v.updates:
			cancel()
			if !ok {
				v.clear()
				return
			}
			v.apply(p)
			if v.style.live && p.Plan == nil {
				v.draw()
			}
		case <-tick:
			if v.style.live {
				v.draw()
			} else if v.plan.Leaves != nil {
				fmt.Fprintln(v.err, v.progress())
			}
		}
	}
}

func (v *live) apply(p squall.Progress) {
	switch {
	case p.Plan != nil:
		v.plan = *p.Plan
		fmt.Fprintln(v.out, heading(v.source, v.plan))
		if v.cost != nil && grows(v.plan) {
			v.cost(v.out, v.plan)
		}
	case p.Added != nil:
		v.plan.Leaves = append(v.plan.Leaves, p.Added...)
	case p.Phase == "pruned":
		delete(v.running, p.Leaf.ID)
		v.plan.Leaves = slices.DeleteFunc(v.plan.Leaves, func(l bundle.PlanLeaf) bool { return l.ID == p.Leaf.ID })
	case p.Done != nil:
		delete(v.running, p.Leaf.ID)
		v.counts[p.Done.Verdict.Outcome]++
	default:
		r, known := v.running[p.Leaf.ID]
		if !known {
			r = runningLeaf{leaf: p.Leaf, since: v.clock.Now()}
		}
		r.phase = p.Phase
		v.running[p.Leaf.ID] = r
	}
}

// grows reports whether a plan has more leaves than cells, or may get more: then it is worth a look beforehand.
func grows(p bundle.Plan) bool {
	return p.Open || slices.ContainsFunc(p.Leaves, func(l bundle.PlanLeaf) bool { return l.Cell != "" })
}

// heading is the line that says what is run.
func heading(source string, p bundle.Plan) string {
	cells := map[string]bool{}
	base := 0
	for _, l := range p.Leaves {
		if cell := cmp.Or(l.Cell, l.ID); !cells[cell] {
			cells[cell] = true
			if l.Assumption == bundle.Baseline {
				base++
			}
		}
	}
	return fmt.Sprintf("%s    %s   %s + %s = %s   seed %d", source,
		plural(len(p.Services), "service"), plural(len(cells)-base, "cell"), plural(base, "baseline"), planned(p), p.Seed)
}

// planned says how many leaves a plan has; "at least" where more may come to light in the running.
func planned(p bundle.Plan) string {
	if p.Open {
		return "at least " + leafCount(len(p.Leaves))
	}
	return leafCount(len(p.Leaves))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func leafCount(n int) string {
	if n == 1 {
		return "1 leaf"
	}
	return fmt.Sprintf("%d leaves", n)
}

func (v *live) draw() {
	v.clear()
	var b strings.Builder
	lines := 0
	for _, l := range v.plan.Leaves {
		r, ok := v.running[l.ID]
		if !ok || lines >= 8 {
			continue
		}
		lines++
		text := fmt.Sprintf("  %-6s %s x %s  %.1f s", r.phase, l.Scenario, l.Assumption, (v.clock.Now() - r.since).Seconds())
		b.WriteString(v.style.dim(clip(text, v.style.width-1)) + "\n")
	}
	b.WriteString(clip(v.progress(), v.style.width-1) + "\n")
	v.drawn = lines + 1
	io.WriteString(v.out, b.String())
}

// progress is the line of counts, with the pace and the time left once there is one.
func (v *live) progress() string {
	done := v.counts[verdict.Pass] + v.counts[verdict.Fail] + v.counts[verdict.Inconclusive]
	text := fmt.Sprintf("  %d of %s: %d pass, %d fail, %d inconclusive", done, leafCount(len(v.plan.Leaves)),
		v.counts[verdict.Pass], v.counts[verdict.Fail], v.counts[verdict.Inconclusive])
	elapsed := v.clock.Now()
	if done == 0 || elapsed < time.Second {
		return text
	}
	left := time.Duration(float64(elapsed) / float64(done) * float64(len(v.plan.Leaves)-done))
	return fmt.Sprintf("%s   %.0f leaves/min, %s left", text, float64(done)/elapsed.Minutes(), left.Round(time.Second))
}

// clear takes away what the last draw wrote.
func (v *live) clear() {
	if v.drawn > 0 {
		fmt.Fprintf(v.out, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}

// clip cuts a line that would wrap: wrapped lines could not be cleared.
func clip(s string, width int) string {
	r := []rune(s)
	if width <= 1 || len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}
