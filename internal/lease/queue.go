package lease

import "time"

// queue is a heap by the moment something is due; everything in it knows its place. One of package container/heap
// would allocate whenever something is added.
type queue[T placed] []item[T]

type item[T placed] struct {
	due time.Duration
	of  T
}

type placed interface {
	put(place int32) // from 1; 0 for none
}

// set has x due at a moment. It is at that place so far, 0: at none.
func (q *queue[T]) set(x T, place int32, due time.Duration) {
	if place == 0 {
		*q = append(*q, item[T]{})
		place = int32(len(*q))
	}
	q.move(int(place)-1, item[T]{due, x})
}

// remove takes out the element at that place.
func (q *queue[T]) remove(place int32) {
	last := len(*q) - 1
	moved := (*q)[last]
	(*q)[place-1].of.put(0)
	(*q)[last] = item[T]{}
	*q = (*q)[:last]
	if i := int(place) - 1; i < last {
		q.move(i, moved)
	}
}

// move puts x at the free place i, or further on, where it belongs.
func (q queue[T]) move(i int, x item[T]) {
	for i > 0 && x.due < q[(i-1)/2].due {
		q.put(i, q[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child+1 < len(q) && q[child+1].due < q[child].due {
			child++
		}
		if child >= len(q) || q[child].due >= x.due {
			break
		}
		q.put(i, q[child])
		i = child
	}
	q.put(i, x)
}

func (q queue[T]) put(i int, x item[T]) {
	q[i] = x
	x.of.put(int32(i + 1))
}
