package kit

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// Forbidden is how servers of different versions say that a script may not run a command.
const Forbidden = "NOPERM|can't run this command|ACL failure"

// classes are the errors that a caller may tell apart, by the words of the tables below.
var classes = []struct {
	name string
	err  error
}{
	{"busy", holdfast.ErrBusy},
	{"not held", holdfast.ErrNotHeld},
	{"lost", holdfast.ErrLost},
	{"already held", holdfast.ErrAlreadyHeld},
	{"closed", holdfast.ErrClosed},
	{"unknown", holdfast.ErrUnknown},
	{"deadline", context.DeadlineExceeded},
	{"canceled", context.Canceled},
}

// ClassOf names everything that an error matches: "done" for nil, "unknown deadline" for both.
func ClassOf(err error) string {
	if err == nil {
		return "done"
	}
	var names []string
	for _, c := range classes {
		if errors.Is(err, c.err) {
			names = append(names, c.name)
		}
	}
	if names == nil {
		return "other: " + err.Error()
	}
	return strings.Join(names, " ")
}
