package several

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

var (
	errAlike = errors.New("two of the locks share a server; their servers must be independent")
	errShort = errors.New("too little of the lease is left")
	errYoung = errors.New("the server has started within a lease, and may have forgotten who holds the lock")
)

// tooFew is why an attempt that ended so on each server was not granted by enough of them.
func (q *Quorum) tooFew(errs []error) error {
	granted, busy, own, lost := 0, 0, 0, 0
	var others, final answers
	class := script.Refused
	for i, err := range errs {
		switch {
		case err == nil:
			granted++
			continue
		case errors.Is(err, session.ErrAlreadyHeld):
			own++ // by a call that is under way, if they are few
			fallthrough
		case errors.Is(err, session.ErrBusy):
			busy++
			continue
		case errors.Is(err, session.ErrUnknown):
			class = script.Unknown
		case errors.Is(err, session.ErrLost):
			lost++
		case !q.passing(err):
			final.add(i, err)
			err = errors.New(err.Error()) // of one server; the others may say something else
		}
		others.add(i, err)
	}
	if lost <= len(errs)-q.need() { // so few that they say nothing of the owner's hold
		maskLosses(others)
	}
	switch {
	case own >= q.need():
		return session.ErrAlreadyHeld
	case len(final) > len(errs)-q.need() && class == script.Unknown: // another server may have granted it
		return session.Unknown(final)
	case len(final) > len(errs)-q.need():
		return final
	case busy > 0 && granted+busy >= q.need():
		return fmt.Errorf("%w on %d of %d servers", session.ErrBusy, busy, len(errs))
	}
	return &script.Failure{
		Class: class, Temporary: true,
		Err: fmt.Errorf("%d of %d servers granted it, %d are needed: %w",
			granted, len(errs), q.need(), others),
	}
}

// passing reports whether an error of one server is one that waiting may mend.
func (q *Quorum) passing(err error) bool {
	return script.IsTemporary(err) || errors.Is(err, errYoung) || errors.Is(err, errNoAnswer) ||
		errors.Is(err, session.ErrLost)
}

// lost is the end of a hold that has too few of its members left, with what became of each.
func (g *quorumGroup) lost(ended []int, held time.Duration) (*ending, []error) {
	var why answers
	closed := 0
	members := *g.members.Load()
	for _, i := range ended {
		switch m := &members[i]; {
		case m.hold == nil:
		case errors.Is(m.hold.Err(), session.ErrClosed):
			closed++
		default:
			why.add(i, m.single().Why())
		}
	}
	if len(why) == 0 && closed > 0 {
		return closedEnd, nil
	}
	err, loss := core.Lost(g.Session(), &g.label, held, why)
	return &ending{err: err, loss: loss}, nil
}

// answers are what servers have said, or why they have not.
type answers []error

// add records the error of server i; texts count from 1.
func (a *answers) add(i int, err error) { *a = append(*a, fmt.Errorf("server %d: %w", i+1, err)) }

// Error has all of them in one line.
func (a answers) Error() string {
	var texts []string
	for _, err := range a {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (a answers) Unwrap() []error { return a }
