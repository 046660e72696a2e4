package fairqueue_test

import "strconv"

// A call is one call of one of our scripts, for the model and for the server.
type call struct {
	script string
	keys   []string
	args   []string
	single bool // the reply is a number
	model  func(*run) reply
}

const (
	acquireScript = "fairlock_acquire"
	releaseScript = "fairlock_release"
	leaveScript   = "fairlock_leave"
	forceScript   = "fairlock_force"
	waitersScript = "lock_waiters"
)

const (
	lockKey  = "m"
	queueKey = "redisson_lock_queue:{m}"
	dueKey   = "redisson_lock_timeout:{m}"
	oursKey  = "holdfast_fair_queue:{m}"
	aliveKey = "holdfast_fair_alive:{m}"

	channels = "redisson_lock__channel:{m}:" // followed by the owner
	sessions = "holdfast_fair:{m}:"          // followed by the session
)

var fiveKeys = []string{lockKey, queueKey, dueKey, oursKey, aliveKey}

func text(n int64) string { return strconv.FormatInt(n, 10) }

func acquireCall(d demand, java ms) call {
	return call{
		script: acquireScript, keys: fiveKeys, model: func(r *run) reply { return r.acquire(d) },
		args: []string{
			d.owner, text(d.notAfter), text(d.lease), channels, sessions, text(d.target), text(d.wait), text(java), "PUBLISH",
			text(d.grant), map[bool]string{false: "0", true: "1"}[d.again],
		},
	}
}

func releaseCall(o owner, target int64, java ms) call {
	return call{
		script: releaseScript, keys: fiveKeys, single: true, model: func(r *run) reply { return r.release(o, target) },
		args: []string{o, "30000", channels, sessions, text(target), text(java), "PUBLISH", "1"},
	}
}

func leaveCall(o owner, java ms) call {
	return call{
		script: leaveScript, keys: fiveKeys, single: true, model: func(r *run) reply { return r.leave(o) },
		args: []string{o, text(java), "PUBLISH", channels, sessions, "1", "30000"},
	}
}

func forceCall(notAfter, java ms) call {
	return call{
		script: forceScript, keys: fiveKeys, model: func(r *run) reply { return r.force(notAfter) },
		args: []string{text(java), "PUBLISH", channels, sessions, "1", text(notAfter)},
	}
}
