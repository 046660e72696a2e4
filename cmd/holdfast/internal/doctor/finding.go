package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redis/rueidis"
)

// A status says how bad it is.
type status string

const (
	statusOK   status = "ok"
	statusNote status = "note" // works; something to know, or that could not be found out
	statusWarn status = "warn" // works for now
	statusFail status = "fail" // locks fail, or do not exclude
)

// A finding is what a check found, on one server or of all together. Its fields as JSON are part of the
// interface.
type finding struct {
	Check   string `json:"check"`
	Status  status `json:"status"`
	Node    string `json:"node"`    // "": the whole deployment
	Found   string `json:"found"`   // a sentence without its stop
	Meaning string `json:"meaning"` // for locks; sentences; may be ""
	Fix     string `json:"fix"`     // sentences; "" if there is nothing to do
}

func okay(format string, args ...any) finding {
	return finding{Status: statusOK, Found: fmt.Sprintf(format, args...)}
}

func note(format string, args ...any) finding {
	return finding{Status: statusNote, Found: fmt.Sprintf(format, args...)}
}

func warn(format string, args ...any) finding {
	return finding{Status: statusWarn, Found: fmt.Sprintf(format, args...)}
}

func fail(format string, args ...any) finding {
	return finding{Status: statusFail, Found: fmt.Sprintf(format, args...)}
}

func (f finding) means(format string, args ...any) finding {
	f.Meaning = fmt.Sprintf(format, args...)
	return f
}

func (f finding) fix(format string, args ...any) finding {
	f.Fix = fmt.Sprintf(format, args...)
	return f
}

// on names the server that it is about.
func (f finding) on(n *node) finding {
	f.Node = n.addr
	return f
}

// unknown is what is found if the server does not answer a question; right is what the question needs.
// Without an error the answer lacks what was asked for.
func unknown(what, right string, err error) finding {
	switch {
	case err == nil:
		return note("%s is not known: the server does not tell", what).fix("Look it up where this Redis is administered.")
	case denied(err):
		return note("%s is not known: the user may not ask", what).
			fix("Run the doctor as an administrator, or grant %s to the user it runs as.", right)
	case refused(err):
		return note("%s is not known: %s", what, plain(err)).fix("Look it up where this Redis is administered.")
	case errors.Is(err, context.Canceled):
		return note("%s is not known: interrupted", what)
	}
	return fail("%s is not known: no answer: %s", what, plain(err)).
		means("A server that does not answer grants no lock, and holders lose theirs when their leases are over.").
		fix("See whether it is up, and busy: INFO commandstats, SLOWLOG GET.")
}

// refused reports whether err is an answer of the server's.
func refused(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// denied reports whether the server says that a right is missing.
func denied(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(answer.Error(), "NOPERM")
}

// quoted is text as a shell takes it, whatever is in it.
func quoted(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= ' ' && c < 0x7f && c != '\'' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return "$'" + b.String() + "'"
}

// plain is the text of an error in one line, without a stop, and with nothing that a terminal would obey.
func plain(err error) string {
	if err == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.TrimSuffix(strings.Join(strings.Fields(err.Error()), " "), "."))
}
