package survey

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Expected is what the reader's name is, or may come to be if there is nothing yet, and whether it can be of a kind; ""
// is any.
func (r *Reader) Expected(ctx context.Context, kind string) (o *Object, can bool, err error) {
	o, err = r.One(ctx)
	switch counts := kind == "semaphore" || kind == KindPermits || kind == "latch"; {
	case err != nil:
		return nil, false, err
	case o == nil && counts:
		n, err := r.client.Do(ctx, r.client.B().Exists().Key(r.only).Build()).AsInt64()
		if n > 0 {
			return NewObject(r.only, "something else"), false, nil
		}
		return NewObject(r.only, KindNumber), true, err
	case o == nil: // it may come to be any lock
		return NewObject(r.only, KindLock+"|"+KindRW+"|"+KindSet), true, nil
	default:
		number := o.Kind == KindNumber || o.Kind == KindPermits && kind != "latch"
		return o, kind == "" || Is(o.Kind, kind) || counts && number, nil
	}
}

// Free reports whether the reader's name, which was the object at the first look, is free: a lock that nobody holds, a
// semaphore with permits, a latch that is open. The kind decides what a number is; "" is a latch. If it is not free,
// again is when it is so at the latest as things are, or seldom if that is not known.
func (r *Reader) Free(
	ctx context.Context, o *Object, kind string, seldom time.Duration,
) (free bool, again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if o.Kind == KindNumber || o.Kind == KindPermits {
		permits := kind == "semaphore" || kind == KindPermits || kind == "" && o.Kind == KindPermits
		o, err := r.One(ctx)
		if err != nil || o == nil || o.Value == nil {
			return err == nil && o == nil && !permits, seldom, err
		}
		return *o.Value > 0 == permits, seldom, nil
	}
	left, err := r.client.Do(ctx, r.client.B().Pttl().Key(r.only).Build()).AsInt64()
	if left < 0 {
		return err == nil && left == gone, seldom, err
	}
	return false, time.Duration(left+1) * time.Millisecond, err
}

// Listen calls wake for each message on the channels of an object, as far as the server lets us listen, and returns
// what ends that.
func (o *Object) Listen(ctx context.Context, client rueidis.Client, wake func()) (silence func()) {
	ctx, cancel := context.WithCancel(ctx)
	var listeners sync.WaitGroup
	hear := func(rueidis.PubSubMessage) { wake() }
	for _, name := range o.Channels() {
		listeners.Go(func() { _ = client.Receive(ctx, client.B().Subscribe().Channel(name).Build(), hear) })
		if client.Mode() == rueidis.ClientModeCluster {
			listeners.Go(func() { _ = client.Receive(ctx, client.B().Ssubscribe().Channel(name).Build(), hear) })
		}
	}
	return func() {
		cancel()
		listeners.Wait()
	}
}
