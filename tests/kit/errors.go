package kit

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// Forbidden matches how servers of different versions refuse a script a command.
const Forbidden = "NOPERM|can't run this command|ACL failure"

// classes are the errors that a caller can tell apart, with the words that tests use for them.
var classes = []struct {
	name string
	err  error
}{
	{"busy", holdfast.ErrBusy},
	{"not held", holdfast.ErrNotHeld},
	{"lost", holdfast.ErrLost},
	{"already held", holdfast.ErrAlreadyHeld},
	{"deadlock", holdfast.ErrDeadlock},
	{"closed", holdfast.ErrClosed},
	{"unknown", holdfast.ErrUnknown},
	{"deadline", context.DeadlineExceeded},
	{"canceled", context.Canceled},
}

// ClassOf names everything that an error matches: nil is "done", and one that matches two is "unknown deadline".
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
