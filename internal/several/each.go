package several

import (
	"cmp"
	"errors"

	"github.com/holdfast-go/holdfast/internal/session"
)

// each does something to all members at once. It returns nil if that succeeded for as many as are needed, otherwise all
// errors.
func (g *group) each(patience *enough, do func(m *member) error) error {
	members := *g.members.Load()
	on := func(i int) *session.Session {
		if members[i].hold == nil {
			return nil
		}
		return members[i].hold.Session()
	}
	errs := atOnce(len(members), patience, on, func(i int) error {
		if members[i].hold == nil {
			return errMissing
		}
		return do(&members[i])
	})
	done, lost := 0, 0
	for _, err := range errs {
		switch {
		case err == nil:
			done++
		case isLoss(err):
			lost++
		}
	}
	if done >= g.need {
		return nil
	}
	if lost <= len(errs)-g.need { // so few that they say nothing of the group
		maskLosses(errs)
	}
	return errors.Join(errs...)
}

// maskLosses makes losses of single members look like none.
func maskLosses(errs []error) {
	for i, err := range errs {
		if isLoss(err) {
			errs[i] = errors.New(err.Error())
		}
	}
}

// isLoss reports whether a member fails so because it is not held any more, or was never granted.
func isLoss(err error) bool {
	return errors.Is(err, session.ErrLost) || errors.Is(err, session.ErrNotHeld) || errors.Is(err, errMissing) ||
		errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrUnknown)
}

// release gives a member back.
func release(m *member) error { return m.hold.Release() }

var (
	errMissing  = errors.New("a server did not grant it")
	errNoAnswer = errors.New("the server has not answered in time")
	errUndone   = session.Unknown(errNoAnswer)
)

// atOnce does something for each of n at once, on their sessions if they have one, and returns the errors when all is
// done, or enough of it. Calls that are not done by then are left to themselves. If one of them panics, so does atOnce.
func atOnce(n int, e *enough, on func(i int) *session.Session, do func(i int) error) []error {
	type outcome struct {
		i        int
		err      error
		panicked any
	}
	outcomes, left := make(chan outcome), make(chan struct{})
	defer close(left)
	errs := make([]error, n)
	for i := range n {
		errs[i] = errUndone
		call := func() {
			o := outcome{i: i, err: errUndone}
			defer func() { // also if an observer panics or ends the goroutine
				o.panicked = recover()
				select {
				case outcomes <- o:
				case <-left:
					if o.panicked != nil {
						panic(o.panicked)
					}
				}
			}()
			o.err = do(i)
		}
		if s := on(i); s != nil {
			of(s).hands.do(s, call)
		} else {
			go call()
		}
	}
	over, ends := e.begin()
	defer e.end()
	var panicked any
	for done := 0; done < n; done++ {
		select {
		case o := <-outcomes:
			panicked, errs[o.i] = cmp.Or(panicked, o.panicked), o.err
			if e.after(o.i, o.err) {
				done = n
			}
		case <-over:
			done = n
		case <-ends:
			done = n
		}
	}
	if panicked != nil {
		panic(panicked) // where the caller can recover
	}
	return errs
}
