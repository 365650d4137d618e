package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Observer is something of a service that becomes events.
type Observer struct {
	Kind ObserverKind
	// Path is, of a file, its absolute path; of system calls, a glob over the paths of their files.
	Path string
	// Decoder makes fields of lines.
	Decoder Decoder
	// Calls are, of system calls, their kernel names; On the kinds of descriptor, empty for any.
	Calls []string
	On    []string
	// Position is file:line:column in the spec.
	Position string
}

// ObserverKind is what is observed.
type ObserverKind string

// The kinds of observers.
const (
	Stdout   ObserverKind = "stdout"
	Stderr   ObserverKind = "stderr"
	LogFile  ObserverKind = "file"
	Syscalls ObserverKind = "syscalls"
)

// Decoder says how the fields of an event are found in a line. The zero value is that of JSON.
type Decoder struct {
	// Format is "json", "logfmt" or "regex"; "" means json.
	Format string
	// Pattern is, of regex, the expression with a name for each group that is a field.
	Pattern string
}

// Compile returns the function that makes an event's fields of a line: the line itself as "line", and the
// fields that are found in it. A line that is not as the format wants it has no other fields. Text that reads
// as a number, true or false becomes that.
func (d Decoder) Compile() (func(line []byte) map[string]any, error) {
	var find func([]byte) map[string]any
	switch d.Format {
	case "", "json":
		find = jsonFields
	case "logfmt":
		find = logfmtFields
	case "regex":
		re, err := regexp.Compile(d.Pattern)
		if err != nil {
			return nil, fmt.Errorf("pattern: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		if strings.Join(re.SubexpNames(), "") == "" {
			return nil, fmt.Errorf("pattern: no group has a name; write (?P<name>...)")
		}
		find = regexFields(re)
	default:
		return nil, fmt.Errorf("unknown format %q", d.Format)
	}
	return func(line []byte) map[string]any {
		fields := find(line)
		if fields == nil {
			fields = map[string]any{}
		}
		fields["line"] = text(line)
		return fields
	}, nil
}

func text(b []byte) string { return string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) }

func jsonFields(line []byte) map[string]any {
	if len(line) < 2 || line[0] != '{' {
		return nil
	}
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return nil
	}
	return fields
}

// scalar is what a value stands for. Numbers are those of JSON: 007 and 1_000 stay text.
func scalar(s string) any {
	switch s {
	case "true":
		return true
	case "false":
		return false
	}
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !json.Valid([]byte(s)) {
		return s
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && i < 1<<53 && i > -1<<53 {
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !strings.ContainsAny(s, ".eE") {
		return s // too large to be kept as it is
	}
	return f
}

func regexFields(re *regexp.Regexp) func([]byte) map[string]any {
	names := re.SubexpNames()
	return func(line []byte) map[string]any {
		found := re.FindSubmatchIndex(line)
		if found == nil {
			return nil
		}
		fields := map[string]any{}
		for i, name := range names {
			if name != "" && found[2*i] >= 0 {
				fields[name] = scalar(text(line[found[2*i]:found[2*i+1]]))
			}
		}
		return fields
	}
}

// logfmtFields reads key=value pairs: a value is a word or a string in double quotes, a key alone is true. A
// line without any pair has no fields: it is ordinary text.
func logfmtFields(line []byte) map[string]any {
	fields := map[string]any{}
	pairs := false
	for rest := text(line); ; {
		rest = strings.TrimLeft(rest, " \t")
		end := strings.IndexAny(rest, "= \t")
		switch {
		case rest == "":
			if !pairs {
				return nil
			}
			return fields
		case end < 0 || rest[end] != '=':
			if end < 0 {
				end = len(rest)
			}
			fields[rest[:end]] = true
			rest = rest[end:]
			continue
		case end == 0:
			return nil
		}
		key := rest[:end]
		pairs = true
		if quoted, err := strconv.QuotedPrefix(rest[end+1:]); err == nil && quoted[0] == '"' {
			fields[key], _ = strconv.Unquote(quoted) // what QuotedPrefix takes can be unquoted
			rest = rest[end+1+len(quoted):]
			continue
		}
		word, after, _ := strings.Cut(strings.ReplaceAll(rest[end+1:], "\t", " "), " ")
		fields[key] = scalar(word)
		rest = after
	}
}
