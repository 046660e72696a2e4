package scripts

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// These are for a fair lock.

var (
	fairKeys = []string{
		lockKey, wire.FairQueue(lockKey), wire.FairDue(lockKey), wire.FairOurs(lockKey), wire.FairAlive(lockKey),
	}
	fairOwn  = wire.FairChannel(lockKey)
	fairTold = wire.FairTold(lockKey)
)

const javaWait = "300000"

type acquireFair struct {
	grant string // default: 0
	again bool
	try   bool
	token bool
	ttl   string // of the token
}

func (a acquireFair) call() call {
	wait, grant := waiterLease, a.grant
	if a.try {
		wait = "0"
	}
	if grant == "" {
		grant = "0"
	}
	c := call{"fairlock_acquire", fairKeys, []string{
		me, "1", halfAMin, soon, wait, javaWait, publishes, fairOwn, fairTold, grant, flag(a.again),
	}}
	if a.token {
		c.keys = append(slices.Clone(fairKeys), tokenKey)
	}
	if a.ttl != "" {
		c.args = append(c.args, a.ttl)
	}
	return c
}

type releaseFair struct{ unreached bool }

func (r releaseFair) call() call {
	return call{"fairlock_release", fairKeys, []string{
		me, "0", javaWait, publishes, fairOwn, fairTold, flag(!r.unreached), halfAMin,
	}}
}

type leaveFair struct{}

func (leaveFair) call() call {
	return call{"fairlock_leave", fairKeys, []string{me, javaWait, publishes, fairOwn, fairTold, flag(true), halfAMin}}
}

type forceFair struct{}

func (forceFair) call() call {
	return call{"fairlock_force", fairKeys, []string{javaWait, publishes, fairOwn, fairTold, flag(true), soon}}
}
