//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A watcher looks after a command that runs under a hold.
type watcher struct {
	*settings
	hold     *holdfast.Hold
	child    *child
	guard    *guard
	terminal *terminal // nil: none
	signals  *signals
	say      *reporter

	status   int
	ended    bool           // the child has; others of its group may live
	by       syscall.Signal // that ended it, 0 if none did
	passed   bool           // we sent the child a SIGINT
	told     bool           // or another signal that asks it to end
	lent     bool           // the child's group has the terminal, or has it again when the job is in the foreground
	loss     error          // why the command is not protected any more, nil if it is
	stopping bool           // we sent SIGTERM
	killAt   time.Time      // zero: never
	kills    int            // how often we sent SIGKILL
}

// start starts the command and its guard.
func (s *settings) start(o outer, hold *holdfast.Hold, signals *signals, say *reporter) (_ *watcher, err error) {
	w := &watcher{settings: s, hold: hold, signals: signals, say: say, terminal: openTerminal()}
	if w.guard, err = startGuard(o.mark()); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	w.tellGuard() // before the command starts: holdfast may be stopped right after
	w.lent = w.terminal != nil && w.terminal.wanted()
	for len(signals.seen) > 0 { // the command hears of none from before it
		<-signals.seen
	}
	if err = hold.Err(); err == nil { // the start of the guard may have taken long
		w.child, err = w.spawn(o)
	}
	// Not before the start of the child, which would inherit it.
	signal.Ignore(syscall.SIGTTOU)
	if err != nil {
		if w.lent { // a child takes it before it fails to become the command
			w.terminal.give(w.terminal.own)
		}
		w.guard.dismiss()
		_, _ = w.guard.process.Wait()
		return nil, err
	}
	w.guard.tell("group", w.child.pid)
	signals.follow()
	return w, nil
}

// watch returns the exit status of the command once no process of its group is left.
func (w *watcher) watch() int {
	lost := w.hold.Context(context.Background()).Done()
	for {
		if w.ended && !w.child.alive() && len(marked(w.mark())) == 0 {
			return w.status
		}
		w.look()
		select {
		case status := <-w.child.changed:
			w.changed(status)
		case sig := <-w.signals.passed:
			w.passed = w.passed || sig == syscall.SIGINT
			w.told = w.told || sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
			w.child.signal(sig.(syscall.Signal))
		case sig := <-w.signals.seen:
			w.child.signal(sig.(syscall.Signal))
		case <-w.signals.continued:
			w.goOn()
		case <-lost:
			lost = nil
			w.lost()
		case <-time.After(w.pause()):
		}
	}
}

// look does what is due by the clock.
func (w *watcher) look() {
	late := func() bool { return w.loss == nil && w.onLoss == onLossStop && !time.Now().Before(w.stopAt()) }
	if late() { // perhaps because this process was stopped, and nobody has tried to renew the hold meanwhile
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		_ = w.hold.Extend(ctx, w.lease)
		cancel()
	}
	if late() {
		w.loss = w.hold.Err()
		if w.loss == nil {
			left := time.Until(w.hold.Deadline()).Round(time.Millisecond)
			w.loss = fmt.Errorf("%q is held for %v more, and could not be renewed", w.name, left)
		}
		w.stop(w.end())
		w.say.say("losing", fmt.Sprintf("stopping the command: %v", w.loss), detail{"error", w.loss.Error()})
	}
	if w.ended && !w.stopping {
		time.Sleep(100 * time.Millisecond) // a daemon that it has started may be about to leave the group
		w.stop(time.Now().Add(w.grace))
	}
	if !w.killAt.IsZero() && !time.Now().Before(w.killAt) {
		kill(w.child.pid, w.mark())
		if w.kills++; w.kills == 40 { // a second or two; not by the clock, as this process may have stood still
			w.say.say("outlived", "waiting for what the command has left and nobody can end, perhaps another user's process")
		}
	}
	w.tellGuard()
}

// tellGuard tells the guard until when the command may run.
func (w *watcher) tellGuard() {
	switch {
	case w.onLoss == onLossKeep:
	case w.loss != nil:
		w.guard.allow(w.killAt)
	default:
		w.guard.allow(w.end())
	}
}

// end is when all processes must be killed if the hold is not renewed: shortly before its deadline, because on a busy
// machine it takes time to die.
func (w *watcher) end() time.Time { return w.hold.Deadline().Add(-min(w.lease/10, time.Second)) }

// stopAt is when the command must be told to stop, if the hold is not renewed, so that it has its grace. A grace that
// is long for the lease is cut short, because one late renewal must not end the command.
func (w *watcher) stopAt() time.Time { return w.end().Add(-min(w.grace, w.lease*2/5)) }

// lost handles the end of the hold: the server has dropped it, or holdfast was stopped for too long.
func (w *watcher) lost() {
	if w.loss != nil {
		return
	}
	w.loss = w.hold.Err()
	now := time.Now()
	if w.onLoss == onLossKeep {
		w.say.say("lost", fmt.Sprintf("%v; the command goes on", w.loss), detail{"error", w.loss.Error()})
		return
	}
	killAt := now.Add(w.grace)
	if !now.Before(w.hold.Deadline()) {
		killAt = now // somebody else may hold the lock already
	}
	w.stop(killAt)
	w.say.say("lost", fmt.Sprintf("%v; stopping the command", w.loss), detail{"error", w.loss.Error()})
}

// stop asks all processes to end. They are killed at the time given, or at an earlier one that was given before.
func (w *watcher) stop(killAt time.Time) {
	if w.killAt.IsZero() || killAt.Before(w.killAt) {
		w.killAt = killAt
	}
	w.stopping = true
	terminate(w.child.pid, w.mark())
}

// mark is what the processes outside the group that must end have in their environment. Without the lock all of them
// must. Otherwise it is "", since a daemon, which has left the group, may live on.
func (w *watcher) mark() string {
	if w.loss == nil || w.onLoss == onLossKeep {
		return ""
	}
	return w.child.mark
}

// pause is how long watch may sleep if nothing happens.
func (w *watcher) pause() time.Duration {
	if w.stopping {
		const poll = 10 * time.Millisecond
		left := time.Until(w.killAt)
		if left < 0 { // more and more rarely, if nobody can end them
			return min(max(-left/10, poll), 10*poll)
		}
		return min(left, poll)
	}
	// Nothing announces a renewal, and the guard must hear of it.
	d := w.lease / 10
	if w.loss == nil && w.onLoss == onLossStop {
		d = min(d, time.Until(w.stopAt()))
	}
	return max(d, time.Millisecond)
}

// changed handles a new state of the child.
func (w *watcher) changed(status syscall.WaitStatus) {
	switch {
	case status.Stopped():
		w.suspended(status.StopSignal())
	case status.Continued():
	default:
		w.status, w.ended = status.ExitStatus(), true
		if status.Signaled() { // as a shell reports it
			w.status, w.by = cli.ExitSignal+int(status.Signal()), status.Signal()
		}
		if w.lent && w.terminal.takeBack(w.child.pid, w.by) {
			w.lent = false
			if w.by == syscall.SIGINT && !w.passed {
				// Ctrl-C is meant for the rest of the job, too, such as a script that would go on.
				_ = syscall.Kill(0, syscall.SIGINT)
			}
		}
	}
}

// suspended stops holdfast with the child, so that the shell has its terminal back and can continue both. Without a
// terminal nobody would continue holdfast, so it goes on and renews the lock.
func (w *watcher) suspended(sig syscall.Signal) {
	switch {
	case w.terminal == nil || w.stopping:
		return
	case (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && w.terminal.ours():
		w.lent = true // it wants the terminal, and may have it
		w.goOn()
		return
	}
	w.terminal.takeBack(w.child.pid, 0)
	if w.terminal.hasJobs() {
		select {
		case <-w.signals.continued: // from an earlier stop
		default:
		}
		// This stops the rest of the job, perhaps a script, but not this process, which ignores SIGTSTP: Go cannot
		// restore what the system does at that signal.
		signal.Ignore(syscall.SIGTSTP)
		_ = syscall.Kill(0, syscall.SIGTSTP)
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
		select {
		case <-w.signals.continued:
		case <-time.After(500 * time.Millisecond): // the first process of a container cannot be stopped
		}
		w.signals.follow()
	}
	w.goOn()
}

// goOn continues the command, unless it must not run any more. If it had the terminal, and the shell has given that
// back to holdfast, the command gets it again.
func (w *watcher) goOn() {
	if w.onLoss == onLossStop && w.hold.Err() != nil {
		return
	}
	if w.lent && w.terminal.ours() {
		w.terminal.give(w.child.pid)
	}
	w.child.signal(syscall.SIGCONT)
}

// finish ends the guard, waits for it, and takes the terminal back. The guard must not become an orphan: in many
// containers nobody waits for those.
func (w *watcher) finish() {
	w.guard.dismiss()
	<-w.guard.gone
	if w.terminal != nil {
		if w.lent {
			w.terminal.takeBack(w.child.pid, w.by)
		}
		_ = w.terminal.file.Close()
	}
}
