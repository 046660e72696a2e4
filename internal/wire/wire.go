// Package wire knows what Redisson puts on the wire: the names of keys and channels and what the
// keys hold, the text of an owner, and which names a cluster can serve. It is the one place where
// such names are made (wire.go) and recognized (layout.go).
package wire

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxName is the length limit of a name, in bytes.
const MaxName = 64 << 10

// MaxCount is the limit of a count: the largest whole number that Lua's numbers hold exactly, or the largest int.
const MaxCount = min(1<<53-1, math.MaxInt)

// Prefix is Redisson's helper for keys and channels that start with a word: "word:{name}",
// so that they share the slot of the name, or "word:name" where the name has a brace and so,
// by Redisson's rule, brings its own hash tag. The names x and {x} so have the same one.
func Prefix(word, name string) string {
	if strings.Contains(name, "{") {
		return word + ":" + name
	}
	return word + ":{" + name + "}"
}

// Suffix is Redisson's helper for keys that end with a word.
func Suffix(name, word string) string {
	if strings.Contains(name, "{") {
		return name + ":" + word
	}
	return "{" + name + "}:" + word
}

// LockChannel is where the release of a reentrant lock is published.
func LockChannel(name string) string { return Prefix("redisson_lock__channel", name) }

// TokenKey holds the last fencing token of a lock.
func TokenKey(name string) string { return Prefix("redisson_lock_token", name) }

// Line lists the waiters of a reentrant lock or a semaphore, this toolkit's alone. Redisson does not know it.
func Line(name string) string { return own("holdfast_line", name) }

// LineAlive has until when the waiters in a line are alive.
func LineAlive(name string) string { return own("holdfast_line_alive", name) }

// Acked is written for a ms, so that replicas can be asked whether they have that, and all before it.
func Acked(name string) string { return own("holdfast_acked", name) }

// AckedBeside is such a key in another slot, as far as there are braces to change or none.
func AckedBeside(name string, i int) string {
	beside := strconv.Itoa(i)
	if strings.Contains(name, "}") {
		return Acked(strings.Replace(name, "}", beside+"}", 1))
	}
	return Acked(name + beside)
}

// Asked has whom others have asked for a lock, and is the channel on which they hear of it.
func Asked(name string) string { return own("holdfast_asked", name) }

// own is [Prefix] by which the names x and {x} have different ones.
func own(word, name string) string {
	if strings.Contains(name, "{") {
		return word + "::" + name
	}
	return Prefix(word, name)
}

// LineChannel is, with a session's id appended, where a session that stands in a line hears that it has the lock, or
// may look for permits.
func LineChannel(name string) string { return Line(name) + ":" }

// LineNames are all names that a lock has besides its key, in one text, since it has them as long as it is there:
// [LineChannel] with the session, which ends at channel, [LineAlive], which ends at alive, [TokenKey], which ends at
// token, and [LineChannel] with [Redisson], whose last word begins [LockChannel]. Without [SessionSuffix] bytes at its
// end the first one is [Line].
func LineNames(name, session string) (text string, channel, alive, token int) {
	const line, living = "holdfast_line", "holdfast_line_alive"
	const tokens, lock = "redisson_lock_token", "redisson_lock__channel"
	opens, ownOpens, closes := ":{", ":{", "}"
	if strings.Contains(name, "{") {
		opens, ownOpens, closes = ":", "::", ""
	}
	text = line + ownOpens + name + closes + ":" + session + living + ownOpens + name + closes +
		tokens + opens + name + closes + line + ownOpens + name + closes + ":" + lock + opens + name + closes
	channel = len(line) + len(ownOpens) + len(name) + len(closes) + len(":") + len(session)
	alive = channel + len(living) + len(ownOpens) + len(name) + len(closes)
	return text, channel, alive, alive + len(tokens) + len(opens) + len(name) + len(closes)
}

// SessionSuffix is the length of a colon and a session.
const SessionSuffix = len(":00000000-0000-8000-8000-000000000000")

// Redisson follows [LineChannel] in place of a session. There those in the line listen who also listen on Redisson's
// channel.
const Redisson = "redisson"

// FairChannel is, with an owner appended, where that owner's waiter hears that it may take a fair lock.
func FairChannel(name string) string { return LockChannel(name) + ":" }

// FairTold is, with a session's id appended, where that session hears that one of its waiters has a fair lock.
func FairTold(name string) string { return own("holdfast_fair", name) + ":" }

// LeaderKey has who leads an election, which is a fair lock. Changes are published on a channel of the same name.
func LeaderKey(name string) string { return own("holdfast_leader", name) }

// BarrierKey has how far a barrier is, whose parties are the permits of a semaphore. Changes are published on a channel
// of the same name.
func BarrierKey(name string) string { return own("holdfast_barrier", name) }

// FairQueue lists the waiters of a fair lock, the next one first.
func FairQueue(name string) string { return Prefix("redisson_lock_queue", name) }

// FairDue has until when Redisson takes the waiters of a fair lock to be alive.
func FairDue(name string) string { return Prefix("redisson_lock_timeout", name) }

// FairOurs lists this toolkit's waiters of a fair lock. Redisson does not know it.
func FairOurs(name string) string { return Prefix("holdfast_fair_queue", name) }

// FairAlive has until when this toolkit's waiters of a fair lock are alive.
func FairAlive(name string) string { return Prefix("holdfast_fair_alive", name) }

// RWChannel is where the releases of both halves of a read-write lock are published.
func RWChannel(name string) string { return Prefix("redisson_rwlock", name) }

// RWWriters has the writers that wait, and makes readers wait behind them. Redisson does not know it.
func RWWriters(name string) string { return Prefix("holdfast_rwlock_writers", name) }

// RWLine lists the waiting writers, RWAlive has the time until which each is alive, and RWWaiting exists while there
// are any. They differ from [Line], because a lock of another kind with the same name would take its waiters for its
// own. Redisson knows none of them.
func RWLine(name string) string { return own("holdfast_rwlock_line", name) }

// RWAlive belongs to [RWLine].
func RWAlive(name string) string { return own("holdfast_rwlock_alive", name) }

// RWWaiting belongs to [RWLine].
func RWWaiting(name string) string { return own("holdfast_rwlock_waiting", name) }

// RWLineChannel is, with a session's id appended, where a session in that line hears that it may look.
func RWLineChannel(name string) string { return RWLine(name) + ":" }

// ReadHold stands for one of the read holds that an owner has of a read-write lock, which are counted from 1.
func ReadHold(name, owner string, number int) string {
	if strings.Contains(name, "{") { // as Suffix does, in one string
		return name + ":" + owner + readHold + strconv.Itoa(number)
	}
	return "{" + name + "}:" + owner + readHold + strconv.Itoa(number)
}

const readHold = ":rwlock_timeout:"

// SessionKey is where a session of ours publishes which process it is.
func SessionKey(session string) string { return Prefix("holdfast_session", session) }

// SessionOfKey is the session of such a key.
func SessionOfKey(key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, before(SessionKey)+"{"), "}")
}

// SetChannel is where this toolkit publishes that it has released a lock that is one string. Other
// libraries that have such locks publish nothing.
func SetChannel(name string) string { return Prefix("holdfast_setlock", name) }

// LatchChannel is where the changes of a countdown latch are published. Redisson has it in braces
// whatever the name.
func LatchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// PermitsKey has the permits of a semaphore that are taken, if they have leases.
func PermitsKey(name string) string { return Suffix(name, "timeout") }

// permitBytes is the length of a permit's id on the wire.
const permitBytes = 16

// NewPermit draws the id of a permit.
func NewPermit() string {
	var permit [permitBytes]byte
	_, _ = rand.Read(permit[:]) // never fails
	return string(permit[:])
}

// PermitID is the id of a permit as callers have it, in hexadecimal.
func PermitID(permit string) string { return hex.EncodeToString([]byte(permit)) }

// Permit is the id of a permit as the server has it, the bytes themselves.
func Permit(id string) (permit string, err error) {
	bytes, err := hex.DecodeString(id)
	if err != nil || len(bytes) != permitBytes {
		return "", fmt.Errorf("permit id is %.80q, must be %d hexadecimal characters", id, 2*permitBytes)
	}
	return string(bytes), nil
}

// SemaphoreChannel is where the free permits of both kinds of semaphores are published.
func SemaphoreChannel(name string) string { return Prefix("redisson_sc", name) }

// WriteOwner returns the text of a wire owner that writes.
func WriteOwner(owner string) string { return owner + ":write" }

// SessionVersion is the version of the UUIDs by which this toolkit's sessions are known. Redisson's client ids are of
// version 4: a script sees whether a holder knows the line of a lock.
const SessionVersion = 8

// Owner is the text of a wire owner: "<session>:<number>", as Redisson's "<client id>:<thread id>".
func Owner(session string, number int64) string {
	var room [64]byte // spares an allocation for a UUID and any number
	buf := append(room[:0], session...)
	buf = append(buf, ':')
	return string(strconv.AppendInt(buf, number, 10))
}

// CheckName returns what is wrong with a name, or nil.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("name is empty")
	case len(name) > MaxName:
		return fmt.Errorf("name is %d bytes long, the limit is %d", len(name), MaxName)
	}
	return nil
}

// ErrSlot is what is wrong with a name that a cluster cannot serve.
var ErrSlot = errors.New("cannot be used in a cluster")

// CheckSlot says why a cluster cannot serve the name: the keys that Redisson makes of it, and the
// channel, would not share a slot, for Redis or for Redisson, whose rule differs for some names.
func CheckSlot(name, channel string) error {
	if tag := hashTag(name); tag != hashTag(Prefix("word", name)) || tag != hashTag(Suffix(name, "word")) ||
		tag != hashTag(channel) {
		return fmt.Errorf("name %.256q %w: its braces put its keys in different slots", name, ErrSlot)
	}
	// Redisson takes the first '}' of the name, Redis the first one behind the '{'.
	if open := strings.IndexByte(name, '{'); open >= 0 && strings.IndexByte(name, '}') < open {
		return fmt.Errorf("name %.256q %w: Redisson would look for it in another slot", name, ErrSlot)
	}
	return nil
}

// CheckBeside says why a script in a cluster cannot have a key besides that of a lock, or nil.
func CheckBeside(key, lock string) error {
	if Slot(key) == Slot(lock) {
		return nil
	}
	return fmt.Errorf("key %.256q is not in the slot of %.256q: in a cluster it must have the same hash tag, %.256q",
		key, lock, "{"+hashTag(lock)+"}")
}

// hashTag is the part of a key that decides its slot.
func hashTag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if !ok {
		return key
	}
	if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
		return tag
	}
	return key
}

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// Slot is the cluster's hash slot of a key.
func Slot(key string) uint16 {
	tag := hashTag(key)
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^tag[i]]
	}
	return crc % Slots
}

// crc16 is the table of CRC-16/XMODEM, polynomial 0x1021, as the cluster specification asks.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()
