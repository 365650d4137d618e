package bundle

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// minSecret is the shortest value that is looked for by value: a shorter one would hide innocent
// text, such as the "1" of DEBUG_TOKEN=1.
const minSecret = 6

// maxLearned bounds how many values are learned while a run goes on, since each is looked for in
// every line.
const maxLearned = 256

// Redactor hides secrets in what a bundle gets: by the name of a variable, option or field, and by
// value, wherever a value known from such a place appears again. It is safe for concurrent use.
type Redactor struct {
	mu      sync.RWMutex
	values  map[string]bool
	finder  *strings.Replacer
	learned int

	// url finds the password of a URL, pair NAME=value and "name": "value", bearer a header's token.
	url, pair, bearer *regexp.Regexp
}

// NewRedactor returns a redactor that knows the values of those entries of env (NAME=value) whose
// name says that they are secret.
func NewRedactor(env []string) *Redactor {
	r := &Redactor{
		values: map[string]bool{},
		url:    regexp.MustCompile(`(\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@"']*:)[^\s/@"']+@`),
		pair:   regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)(=|"\s*:\s*|'\s*:\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&"'{}\[\]]+)`),
		bearer: regexp.MustCompile(`(?i)\b(bearer|basic) [A-Za-z0-9._~+/=-]{8,}`),
	}
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && SecretName(name) {
			r.know(value)
		}
	}
	r.build()
	return r
}

// Add makes further values known, whatever their names.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		r.know(v)
	}
	r.build()
}

func (r *Redactor) know(value string) {
	for _, v := range append(strings.Split(value, "\n"), value) {
		v = strings.TrimSpace(v)
		if len(v) < minSecret || v == Redacted || r.values[v] {
			continue
		}
		r.values[v] = true
		for _, form := range []string{
			url.QueryEscape(v), url.PathEscape(v),
			base64.StdEncoding.EncodeToString([]byte(v)), base64.URLEncoding.EncodeToString([]byte(v)),
		} {
			r.values[form] = true
		}
	}
}

// learn keeps a value that was found under a secret's name, to find it again elsewhere.
func (r *Redactor) learn(value string) {
	if len(value) < minSecret || value == Redacted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values[value] || r.learned >= maxLearned {
		return
	}
	r.learned++
	r.know(value)
	r.build()
}

func (r *Redactor) build() {
	values := make([]string, 0, len(r.values))
	for v := range r.values {
		values = append(values, v)
	}
	// Longest first, so that a secret that contains another is hidden whole.
	slices.SortFunc(values, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return cmp.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, Redacted)
	}
	r.finder = strings.NewReplacer(pairs...)
}

// Text hides known values, name=value pairs and "name":"value" members whose name is a secret's,
// passwords in URLs and bearer tokens.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	s = r.known(s)
	if strings.Contains(s, "://") {
		s = r.url.ReplaceAllString(s, "${1}"+Redacted+"@")
	}
	if strings.ContainsAny(s, "=:") {
		s = r.pairs(s)
	}
	return r.bearer.ReplaceAllString(s, "${1} "+Redacted)
}

func (r *Redactor) known(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.values) == 0 {
		return s
	}
	return r.finder.Replace(s)
}

func (r *Redactor) pairs(s string) string {
	return r.pair.ReplaceAllStringFunc(s, func(m string) string {
		g := r.pair.FindStringSubmatch(m)
		name, sep, value := g[1], g[2], g[3]
		bare := strings.Trim(value, `"'`)
		if !SecretName(name) || bare == "" || strings.HasPrefix(bare, Redacted) {
			return m
		}
		r.learn(bare)
		return name + sep + strings.Replace(value, bare, Redacted, 1)
	})
}

// Env returns a copy of env with secrets hidden.
func (r *Redactor) Env(env map[string]string) map[string]string {
	out := make(map[string]string, len(env))
	for name, value := range env {
		if SecretName(name) && value != "" {
			r.learn(value)
			out[name] = Redacted
			continue
		}
		out[name] = r.Text(value)
	}
	return out
}

// Args returns a copy of a command line with secrets hidden, also where a secret's option and its
// value are two arguments.
func (r *Redactor) Args(args []string) []string {
	if args == nil {
		return nil
	}
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = r.Text(arg)
		if i == 0 || arg == "" || strings.HasPrefix(arg, "-") {
			continue
		}
		if before := args[i-1]; strings.HasPrefix(before, "-") && !strings.Contains(before, "=") && SecretName(strings.TrimLeft(before, "-")) {
			r.learn(arg)
			out[i] = Redacted
		}
	}
	return out
}

// Fields returns a copy of an event's fields with secrets hidden. Under a secret's name only text
// is hidden: numbers such as fencing tokens are what a verdict is about.
func (r *Redactor) Fields(fields map[string]any) map[string]any {
	if fields == nil {
		return nil
	}
	r.learnFields(fields)
	return r.object(fields)
}

// learnFields comes first, since the same secret often stands in a line and in a field made of it.
func (r *Redactor) learnFields(fields map[string]any) {
	for name, v := range fields {
		switch v := v.(type) {
		case string:
			if SecretName(name) {
				r.learn(v)
			}
		case map[string]any:
			r.learnFields(v)
		}
	}
}

func (r *Redactor) object(fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields))
	for name, v := range fields {
		if s, ok := v.(string); ok && s != "" && SecretName(name) {
			out[name] = Redacted
			continue
		}
		out[name] = r.value(v)
	}
	return out
}

func (r *Redactor) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.Text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.value(v[i])
		}
		return out
	case []string:
		return r.Args(v)
	case map[string]any:
		return r.object(v)
	}
	return v
}

// texts hides secrets in every text of *v, a plain value of this package's types, after making it a
// copy that shares nothing with the caller. Names that other members refer to stay.
func texts[T any](r *Redactor, v T) (T, error) {
	var out T
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err == nil {
		r.walk(reflect.ValueOf(&out).Elem())
	}
	return out, err
}

func (r *Redactor) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			v.SetString(r.Text(v.String()))
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case !f.IsExported(), f.Name == "ID", f.Name == "Schema", f.Name == "Trace":
			default:
				r.walk(v.Field(i))
			}
		}
	}
}

// SecretName reports whether a variable, option or field of that name holds a secret.
func SecretName(name string) bool {
	words := nameWords(name)
	if len(words) == 1 && words[0] == "pwd" {
		return false // the shell's working directory
	}
	for i, w := range words {
		switch w {
		case "password", "passwd", "pwd", "passphrase", "pass", "secret", "secrets", "token", "apikey",
			"credential", "credentials", "authorization", "cookie", "dsn", "pgpassword", "privatekey":
			return true
		case "key", "keys":
			// A key alone is what a cache or a map has; an API_KEY is a secret.
			if i > 0 && i == len(words)-1 && !innocentKey(words[i-1]) {
				return true
			}
		}
	}
	return false
}

func innocentKey(before string) bool {
	return slices.Contains([]string{"primary", "foreign", "partition", "sort", "cache", "routing", "public", "idempotency", "row", "map", "order", "object"}, before)
}

// nameWords splits DB_PASSWORD, db-password, db.password and dbPassword into words.
func nameWords(name string) []string {
	var words []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	runes := []rune(name)
	for i, c := range runes {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			flush()
			continue
		case unicode.IsUpper(c) && i > 0 && !unicode.IsUpper(runes[i-1]):
			flush()
		}
		word = append(word, c)
	}
	flush()
	return words
}
