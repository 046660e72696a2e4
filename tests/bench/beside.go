//go:build unix

package bench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The commands by which Redisson takes and frees a lock that nobody waits for, as bare as they can be sent.
const (
	bareLock = `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])`
	bareUnlock = `if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1`
)

var errTaken = errors.New("bare commands do not wait")

// Beside is what a lock and its release cost beside those bare commands: ratios of theirs.
type Beside struct {
	Rate, Low, High float64
	CPU             float64       // of this process
	Ours, Bare      time.Duration // of it, for each cycle
	Noise           float64       // what the bare commands are to themselves
	Allocs, Bytes   float64       // for each cycle of ours
}

// MeasureBeside interleaves rounds of locks of a kind, by a session as Open makes it, with rounds of the bare commands,
// on the client as rueidis sets it up. Each of the goroutines has a name of its own, and ctx.
func MeasureBeside(tb testing.TB, ctx context.Context, kind Kind, goroutines, rounds int) Beside {
	srv := redistest.Start(tb)
	s := open(tb, 30*time.Second, srv.Addr())
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr()}})
	must(tb, err)
	defer client.Close()
	ours, bare := make([]func(), goroutines), make([]func(), goroutines)
	for i := range goroutines {
		l := kind(s, "orders:"+strconv.Itoa(i))
		ours[i] = func() { cycle(tb, ctx, l) }
		lock, unlock := Bare(client, "bare:"+strconv.Itoa(i), s.ID()+":1", 30*time.Second)
		bare[i] = func() {
			must(tb, lock(ctx))
			must(tb, unlock(ctx))
		}
	}
	bare[0]()
	ours[0]()
	var rates, cpus, noise []float64
	var b Beside
	for range rounds {
		before, mine, after := measure(bare), measure(ours), measure(bare)
		rates = append(rates, 2*mine.rate/(before.rate+after.rate))
		cpus = append(cpus, 2*float64(mine.cpu)/float64(before.cpu+after.cpu))
		noise = append(noise, before.rate/after.rate)
		b.Ours, b.Bare = b.Ours+mine.cpu/time.Duration(rounds), b.Bare+before.cpu/time.Duration(rounds)
		b.Allocs, b.Bytes = mine.allocs, mine.bytes
	}
	slices.Sort(rates)
	slices.Sort(cpus)
	slices.Sort(noise)
	b.Rate, b.Low, b.High = rates[rounds/2], rates[rounds/10], rates[rounds*9/10]
	b.CPU, b.Noise = cpus[rounds/2], noise[rounds/2]
	return b
}

// Bare returns a lock of name and its release, which send those commands and nothing else. The lock does not wait.
func Bare(c rueidis.Client, name, owner string, lease time.Duration) (lock, unlock func(ctx context.Context) error) {
	ms := strconv.FormatInt(lease.Milliseconds(), 10)
	take, taking := rueidis.NewLuaScript(bareLock), []string{ms, owner}
	free, freeing := rueidis.NewLuaScript(bareUnlock), []string{"0", ms, owner}
	keys, channel := []string{name}, []string{name, "redisson_lock__channel:{" + name + "}"}
	lock = func(ctx context.Context) error {
		if err := take.Exec(ctx, c, keys, taking).Error(); !rueidis.IsRedisNil(err) {
			return errors.Join(errTaken, err)
		}
		return nil
	}
	unlock = func(ctx context.Context) error { return free.Exec(ctx, c, channel, freeing).Error() }
	return lock, unlock
}

// A round is what each cycle has cost in it.
type round struct {
	rate          float64 // cycles per second
	cpu           time.Duration
	allocs, bytes float64
}

// measure runs each function in a goroutine, again and again for a while.
func measure(cycles []func()) round {
	const lasts = 200 * time.Millisecond
	var n atomic.Int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := Worked()
	rate := perSecond(len(cycles), lasts, func(i int) {
		cycles[i]()
		n.Add(1)
	})
	cpu := Worked() - began
	runtime.ReadMemStats(&after)
	count := float64(n.Load())
	return round{
		rate: rate, cpu: time.Duration(float64(cpu) / count),
		allocs: float64(after.Mallocs-before.Mallocs) / count, bytes: float64(after.TotalAlloc-before.TotalAlloc) / count,
	}
}

// Worked is how long this process has used a CPU.
func Worked() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
