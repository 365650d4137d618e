package starbind

import (
	"fmt"

	"go.starlark.net/starlark"

	"github.com/squallhq/squall/fault"
	"github.com/squallhq/squall/internal/starbind/bind"
	"github.com/squallhq/squall/spec"
)

// active is what fault_start put in force, as a value.
type active struct {
	opaque
	rules spec.Active
	// keys are the values by which it can be stopped.
	keys []any
	done bool
}

// Attr returns fired, which tells how often the rules acted.
func (a *active) Attr(name string) (starlark.Value, error) {
	if name != "fired" {
		return nil, nil
	}
	return starlark.NewBuiltin("fired", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		sum := 0
		for _, n := range a.rules.Fired() {
			sum += n
		}
		return starlark.MakeInt(sum), nil
	}), nil
}

// AttrNames lists what Attr knows.
func (a *active) AttrNames() []string { return []string{"fired"} }

// ruleSet makes the rules of a fault or fault_start call, and the keys for stopping them.
func (c *call) ruleSet(ids *namer) ([]fault.Rule, []any) {
	effects := argList[*linkRule](c, "rules")
	var rules []fault.Rule
	var keys []any
	var tgt target
	switch v := c.Args["target"].(type) {
	case *assumption:
		keys = append(keys, v)
		for _, r := range v.decl.Rules {
			r.ID = ids.name(r.ID)
			rules = append(rules, r)
		}
		if len(c.Rest) > 0 {
			c.Errorf(c.Rest[0].At, "", "an assumption has its own calls; %s= needs a service as target", c.Rest[0].Name)
		}
	case *linkRule:
		keys = append(keys, v)
		effects = append([]*linkRule{v}, effects...)
		if len(c.Rest) > 0 {
			c.Errorf(c.Rest[0].At, "", "%s= needs a service as target", c.Rest[0].Name)
		}
	case *linkValue:
		keys = append(keys, v)
		effects = v.between(effects)
		if len(c.Rest) > 0 {
			c.Errorf(c.Rest[0].At, "", "%s= needs a service as target", c.Rest[0].Name)
		}
	case target:
		keys = append(keys, v)
		tgt = v
	}
	rules = append(rules, c.syscallRules(ids, tgt.service, "")...)
	rules = append(rules, c.linkRules(ids, tgt, "", effects)...)
	if len(rules) == 0 && !c.Bad {
		c.Errorf(c.Site.Span(), "", "has no rule: name a call (write = deny(...)), an effect such as latency(), or an assumption")
	}
	return rules, keys
}

// between returns the effects on this link; one that names its own link keeps that.
func (l *linkValue) between(effects []*linkRule) []*linkRule {
	out := make([]*linkRule, len(effects))
	for i, e := range effects {
		copied := *e
		if copied.pair == nil {
			copied.pair = &l.pair
		}
		out[i] = &copied
	}
	return out
}

// bodyNames gives IDs to rules made in a body: by the position of the call and, in a loop, by the
// count of its turns.
func (c *call) bodyNames() *namer {
	b := c.env.body
	b.mu.Lock()
	defer b.mu.Unlock()
	owner := fmt.Sprintf("%s@%s", c.Entry.Name, c.Site.Start())
	b.made[owner]++
	if n := b.made[owner]; n > 1 {
		owner = fmt.Sprintf("%s#%d", owner, n)
	}
	return &namer{owner, map[string]int{}}
}

// during puts rules in force while a function runs.
func (c *call) during(rules []fault.Rule) (starlark.Value, error) {
	if c.Bad {
		return nil, nil
	}
	a, err := c.env.world.Inject(c.env.ctx, rules...)
	if err != nil {
		return nil, c.Worldly(err)
	}
	defer a.Release()
	return starlark.Call(c.Thread, arg[starlark.Callable](c, "run"), nil, nil)
}

// start puts rules in force until they are stopped.
func (c *call) start(rules []fault.Rule, keys []any) (starlark.Value, error) {
	if c.Bad {
		return nil, nil
	}
	rs, err := c.env.world.Inject(c.env.ctx, rules...)
	if err != nil {
		return nil, c.Worldly(err)
	}
	a := &active{opaque: named("active", "active("+c.Site.Start().String()+")"), rules: rs}
	a.keys = append(keys, a)
	b := c.env.body
	b.mu.Lock()
	b.started = append(b.started, a)
	b.mu.Unlock()
	return a, nil
}

// stop lifts what was started under a key, and returns how many sets of rules that were.
func (b *bodyState) stop(key any) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, a := range b.started {
		for _, k := range a.keys {
			if k == key && !a.done {
				a.done = true
				a.rules.Release()
				n++
			}
		}
	}
	return n
}

// checkRules looks at the rules of a call whose target and effects are known before it is made.
func checkRules(b *bind.Call, known func(param string) bool) {
	if c := with(b); known("target") && known("rules") && known("source") && len(argList[*linkRule](c, "rules"))+len(c.Rest) > 0 {
		c.ruleSet(&namer{"", map[string]int{}})
	}
}

func doFault(c *call) (starlark.Value, error) {
	rules, _ := c.ruleSet(c.bodyNames())
	return c.during(rules)
}

func doFaultStart(c *call) (starlark.Value, error) {
	rules, keys := c.ruleSet(c.bodyNames())
	return c.start(rules, keys)
}

func doFaultStop(c *call) (starlark.Value, error) {
	var key any = c.Args["fault"]
	if v, ok := c.Args["fault"].(starlark.Value); ok {
		if t, ok := targetOf(v); ok {
			key = t
		}
	}
	if c.env.body.stop(key) == 0 {
		c.Errorf(c.Where("fault"), "", "nothing is in force that fault_start put there for this")
	}
	return nil, nil
}

// pairKey is the key of a started partition.
type pairKey struct{ a, b string }

func doPartition(c *call) (starlark.Value, error) {
	r := partitionRule(c)
	if !c.Has("run") {
		return r, nil
	}
	if c.env.when == bind.AtLoad {
		c.Errorf(c.Site.KeywordSpan("run"), "", "run= works in a scenario only; at the top level partition() is a rule")
		return r, nil
	}
	return c.during(c.linkRules(c.bodyNames(), target{}, "", []*linkRule{r}))
}

func doPartitionStart(c *call) (starlark.Value, error) {
	r := partitionRule(c)
	return c.start(c.linkRules(c.bodyNames(), target{}, "", []*linkRule{r}), []any{pairKey{r.pair.A, r.pair.B}})
}

func doPartitionStop(c *call) (starlark.Value, error) {
	a, b := arg[string](c, "a"), arg[string](c, "b")
	if c.env.body.stop(pairKey{a, b})+c.env.body.stop(pairKey{b, a}) == 0 {
		c.Errorf(c.Site.Span(), "", "no partition of %s and %s is in force", a, b)
	}
	return nil, nil
}
