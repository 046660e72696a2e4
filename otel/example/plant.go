package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/embedded"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// A plant is a server and three sessions, as if of three programs, whose workers are in each other's way.
type plant struct {
	redis    *embedded.Server
	sessions []*holdfast.Session
}

const lease = 2 * time.Second

func newPlant(observer *holdfast.Observer, log *slog.Logger) (*plant, error) {
	redis, err := embedded.Start()
	if err != nil {
		return nil, err
	}
	p := &plant{redis: redis}
	for range 3 {
		s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{redis.Addr()}},
			&holdfast.Options{Lease: lease, Observer: observer, Logger: log})
		if err != nil {
			p.close()
			return nil, err
		}
		p.sessions = append(p.sessions, s)
	}
	return p, nil
}

func (p *plant) close() {
	for _, s := range p.sessions {
		_ = s.Close()
	}
	p.redis.Close()
}

// run works until ctx ends. From time to time something goes wrong.
func (p *plant) run(ctx context.Context, every time.Duration) {
	var wg sync.WaitGroup
	for _, s := range p.sessions {
		catalog := rwlock.New(s, "catalog", nil)
		for range 3 {
			wg.Go(func() { work(ctx, catalog.Read().Lock, 20*time.Millisecond) })
		}
		wg.Go(func() { work(ctx, catalog.Write().Lock, 50*time.Millisecond) })
		wg.Go(func() { work(ctx, fairlock.New(s, "report", nil).Lock, 300*time.Millisecond) })
		for i := range 4 {
			stock := rlock.New(s, "stock:"+strconv.Itoa(i%2), nil)
			wg.Go(func() { work(ctx, stock.Lock, 10*time.Millisecond) })
			wg.Go(func() { work(ctx, stock.TryLock, 10*time.Millisecond) })
		}
		wg.Go(func() { stand(ctx, s) })
	}
	cron := rlock.New(p.sessions[0], "cron", nil)
	wg.Go(func() { work(ctx, cron.Lock, time.Minute) })
	wg.Go(func() { p.trouble(ctx, cron, every) })
	wg.Wait()
}

// work takes, holds for about as long as that, and releases, over and over.
func work(ctx context.Context, take func(context.Context) (*holdfast.Hold, error), about time.Duration) {
	for ctx.Err() == nil {
		patience, cancel := context.WithTimeout(ctx, 5*time.Second)
		hold, err := take(patience)
		cancel()
		if err == nil {
			pause(hold.Context(ctx), about/2+rand.N(about)) // until it is lost at the longest
			_ = hold.Release()                              // a loss is logged, and counted
		}
		pause(ctx, rand.N(50*time.Millisecond))
	}
}

// stand stands for election over and over, and resigns from each term after a while.
func stand(ctx context.Context, s *holdfast.Session) {
	for ctx.Err() == nil {
		_ = leader.Run(ctx, s, "billing", func(ctx context.Context) error {
			pause(ctx, time.Second)
			return nil
		})
		pause(ctx, rand.N(50*time.Millisecond))
	}
}

// trouble is what operators wish to see coming: locks that are freed by force, a server that stands still for a
// while, messages that get lost.
func (p *plant) trouble(ctx context.Context, cron *rlock.Mutex, every time.Duration) {
	for ctx.Err() == nil {
		pause(ctx, every)
		_, _ = cron.ForceUnlock(ctx)
		pause(ctx, every)
		p.redis.Pause()
		pause(ctx, lease/2)
		p.redis.Resume()
		pause(ctx, every)
		p.redis.DropMessages()
		pause(ctx, lease)
		p.redis.Resume()
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
