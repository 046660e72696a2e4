//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The variables in the environment of a command.
const (
	envName     = "HOLDFAST_NAME"
	envOwner    = "HOLDFAST_OWNER"
	envToken    = "HOLDFAST_TOKEN"
	envDeadline = "HOLDFAST_DEADLINE"
	envRuns     = "HOLDFAST_RUNS" // for holdfast itself
)

const deadlineFormat = "2006-01-02T15:04:05.000Z07:00"

// An outer is a run in which this one is nested. It names no server: owners and ids of permits are random, so a
// server on which one holds something is the server that granted it.
type outer struct {
	Name     []byte `json:"name"` // may be any bytes, which a string of JSON cannot hold
	Kind     kind   `json:"kind"`
	Owner    string `json:"owner"`
	Token    int64  `json:"token,omitempty"`
	Deadline string `json:"deadline"`
}

// outers are the runs in which this one is nested, the innermost last. A value that is no list of runs is not ours.
func outers() (list []outer) {
	if json.Unmarshal([]byte(os.Getenv(envRuns)), &list) != nil {
		return nil
	}
	return list
}

func newOuter(k kind, hold *holdfast.Hold) outer {
	return outer{
		Name: []byte(hold.Name()), Kind: k, Owner: hold.ID(), Token: hold.Token(),
		Deadline: hold.Deadline().UTC().Format(deadlineFormat),
	}
}

// mark is a text that the environment of every process of the run contains.
func (o outer) mark() string { return `"owner":"` + o.Owner + `"` }

// environ is the environment of a command that runs under o, nested in the runs listed.
func (o outer) environ(list []outer) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{envName, envOwner, envToken, envDeadline, envRuns}, key)
	})
	env = append(env, envName+"="+string(o.Name), envOwner+"="+o.Owner, envDeadline+"="+o.Deadline)
	if o.Token > 0 {
		env = append(env, envToken+"="+strconv.FormatInt(o.Token, 10))
	}
	runs, _ := json.Marshal(list) // never fails
	return append(env, envRuns+"="+string(runs))
}

// under returns the outer run whose hold is enough for this one, nil if there is none.
func (s *settings) under(ctx context.Context, session *holdfast.Session) (*outer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list := outers()
	var short *outer
	for i, o := range slices.Backward(list) {
		if string(o.Name) != s.name || (o.Kind == permit) != (s.permits > 0) {
			continue
		}
		held, err := holds(ctx, session, o.Kind, s.name, o.Owner)
		switch {
		case err != nil && !errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, holdfast.ErrWrongKind):
			return nil, err
		case !held: // on another server, or by now, the name may be of another kind
		case o.Kind.covers(s.kind()) && (!s.fenced || o.Token > 0) && s.atLeast == 0:
			return &list[i], nil
		case short == nil:
			short = &list[i]
		}
	}
	switch {
	case short == nil:
		return nil, nil //nolint:nilnil // there is none
	case short.Kind.covers(s.kind()) && s.atLeast > 0:
		return nil, s.usagef("this is inside a holdfast run of %q: give --at-least to that one", s.name)
	case short.Kind.covers(s.kind()):
		return nil, s.usagef("this is inside a holdfast run of %q without --fenced, which has no token", s.name)
	}
	return nil, s.usagef("this is inside a holdfast run -s of %q, and would wait for it forever", s.name)
}
