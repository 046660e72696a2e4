//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// run takes the lock, runs the command and releases the lock.
func (s *settings) run(redis *cli.Redis, say *reporter) error {
	opts := &holdfast.Options{Label: s.label(), Lease: s.lease, Observer: troubles(say)}
	if s.noFork { // it is the lease of the lock alone
		opts.Lease = 0
	}
	session, err := redis.Open(opts) // before listening: a signal ends this at once
	if err != nil {
		return err
	}
	signals := listen(s.verb)
	defer func() {
		_ = signals.giveBack(func() error {
			s.standing.Wait() // and so for the end of a term to be told
			return session.Close()
		})
	}()

	var around *outer
	if err := signals.during(func(ctx context.Context) (err error) {
		around, err = s.under(ctx, session)
		return err
	}); err != nil {
		return s.failure(err)
	}
	if around != nil {
		text := fmt.Sprintf("%q is held by the holdfast run around this one", s.name)
		say.tell("nested", text, detail{"owner", around.Owner})
		_ = session.Close()
		return s.become(around.environ(outers()), signals, say)
	}

	for {
		hold, err := s.take(session, signals, say)
		switch {
		case err != nil:
			return err
		case s.noFork:
			return s.hand(hold, signals, say)
		}
		if err = s.protect(session, hold, signals, say); err != errTermOver { //nolint:errorlint // what protect returns
			return err
		}
		signals.wait()
		say.say("standing", fmt.Sprintf("standing for election in %q again", s.name))
	}
}

// troubles reports why attempts fail, if not because somebody has the lock: a replica is waited for without end.
func troubles(say *reporter) *holdfast.Observer {
	var since time.Time // in the future once it has been said
	return &holdfast.Observer{Attempt: func(_ holdfast.Subject, a holdfast.Attempt) {
		switch now := time.Now(); {
		case a.Err == nil, errors.Is(a.Err, holdfast.ErrBusy):
			since = time.Time{}
		case since.IsZero():
			since = now
		case now.Sub(since) > time.Second:
			since = now.Add(time.Hour)
			say.say("trouble", fmt.Sprintf("waiting for Redis: %v", a.Err), detail{"error", a.Err.Error()})
		}
	}}
}

// patience is how long a run waits for the server to learn that it has succeeded.
const patience = 2 * time.Second

// errTermOver ends a term that was lost while nobody had told the command to end.
var errTermOver = &cli.ExitError{Code: cli.ExitLost}

// hand becomes the command, and leaves it the lock for the rest of the lease: holdfast is gone, so nobody renews or
// releases it. If it cannot become the command, it releases the lock.
func (s *settings) hand(hold *holdfast.Hold, signals *signals, say *reporter) error {
	o := newOuter(s.kind(), hold)
	err := s.become(o.environ(append(outers(), o)), signals, say, hold.Err)
	if bad := signals.giveBack(hold.Release); bad != nil && !errors.Is(bad, holdfast.ErrLost) {
		s.unreleased(bad, say)
	}
	return err
}

// unreleased reports that the lock could not be released.
func (s *settings) unreleased(err error, say *reporter) {
	free := max(s.lease, s.atLeast)
	say.say("unreleased", fmt.Sprintf("%v; it is free in %v at the latest", err, free), detail{"error", err.Error()})
}

// become replaces this process by the command, unless a signal has come or one of the last checks fails. It returns
// only if it could not.
func (s *settings) become(env []string, signals *signals, say *reporter, checks ...func() error) error {
	s.executing(say)
	say.flush() // what is not written is lost
	for _, check := range checks {
		if err := check(); err != nil {
			return s.failure(err)
		}
	}
	// From here on a signal ends holdfast as it would end the command. One that has come the exec would forget.
	signal.Stop(signals.passed) // after this the channel has all that came
	if err := signals.pending(); err != nil {
		return err
	}
	err := syscall.Exec(s.path, s.argv, env)
	if errors.Is(err, syscall.ENOEXEC) {
		s.byShell()
		err = syscall.Exec(s.path, s.argv, env)
	}
	return cli.Exit(cli.ExitUnavailable, fmt.Errorf("%s: %s: %w", s.verb, s.path, err))
}

// byShell makes sh run the program: the system cannot, but it may be a script that does not begin with #!. Shells and
// execvp(3) do the same.
func (s *settings) byShell() {
	const sh = "/bin/sh"
	s.path, s.argv = sh, append([]string{sh, s.path}, s.argv[1:]...)
}

func (s *settings) executing(say *reporter) {
	say.tell("executing", "executing "+filepath.Base(s.argv[0]), detail{"command", s.argv})
}

// protect runs the command under the hold.
func (s *settings) protect(session *holdfast.Session, hold *holdfast.Hold, signals *signals, say *reporter) error {
	o := newOuter(s.kind(), hold)
	s.executing(say)
	say.flush() // before the command says anything
	w, err := s.start(o, hold, signals, say)
	if err != nil {
		_ = signals.giveBack(hold.Release)
		if s.verb == leads && errors.Is(err, holdfast.ErrLost) && !signals.hurried {
			say.say("lost", fmt.Sprintf("%v, before the command began", err), detail{"error", err.Error()})
			return errTermOver
		}
		return s.failure(err)
	}
	s.stay()
	status := w.watch()
	w.finish()

	if w.loss == nil && w.guard.struck() {
		w.loss = errors.New("this process was stopped for too long, and its guard has killed the command")
		say.say("lost", w.loss.Error(), detail{"error", w.loss.Error()})
	}
	again := s.verb == leads && w.loss != nil && !w.told && w.by != syscall.SIGINT
	slow := time.AfterFunc(time.Second, func() {
		say.say("releasing", "releasing the lock takes long: Redis does not answer")
	})
	err = signals.giveBack(func() error {
		if s.takeOver && status == cli.ExitOK && w.loss == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := s.leave(ctx, session, hold); err != nil {
				say.say("unkept", fmt.Sprintf("others are not kept out: %v", err), detail{"error", err.Error()})
			}
			s.stay()
		}
		return hold.Release()
	})
	slow.Stop()
	again = again && !signals.hurried
	if w.loss != nil || errors.Is(err, holdfast.ErrUnknown) {
		signals.hurried = true // nothing is left to release, or it was tried long enough
	}
	switch {
	case w.loss != nil:
	case errors.Is(err, holdfast.ErrLost):
		say.say("lost", fmt.Sprintf("lost %q before the command ended: %v", s.name, err), detail{"error", err.Error()})
		w.loss = err
	case err != nil:
		s.unreleased(err, say)
	}
	if w.loss != nil {
		say.tell("ended", fmt.Sprintf("the command ended with %d", status), detail{"status", status})
		if again {
			return errTermOver
		}
		return cli.Silent(cli.ExitLost)
	}
	if w.by == syscall.SIGINT {
		return errInterrupted
	}
	return cli.Silent(status)
}

// failure gives the error of a run that could not take its lock an exit code.
func (s *settings) failure(err error) error {
	if _, ok := errors.AsType[*cli.ExitError](err); ok {
		return err
	}
	code := cli.ExitUnavailable
	switch {
	case errors.Is(err, holdfast.ErrWrongKind), errors.Is(err, wire.ErrSlot):
		code = cli.ExitUsage
	case errors.Is(err, holdfast.ErrUnknown):
		code = cli.ExitTempFail
	case errors.Is(err, holdfast.ErrLost):
		code = cli.ExitLost
	case errors.Is(err, holdfast.ErrClosed), errors.Is(err, holdfast.ErrAlreadyHeld), errors.Is(err, holdfast.ErrNotHeld):
		code = cli.ExitSoftware
	}
	return cli.Exit(code, fmt.Errorf("%s: %w", s.verb, err))
}
