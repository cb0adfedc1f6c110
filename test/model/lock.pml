/*
 * One lock: its item, its pages of later waiters, and the clients that ask for it. A model for SPIN, which tries every order of steps.
 *
 * Each atomic block is one read or one conditional write of the table, and nothing else is shared. Between two of them anything may
 * happen: others write, an answer is lost and the request is sent again, a copy of it arrives late, a client dies, a lease runs out.
 *
 *     item    holder  fence  expired  front[0 .. flen-1]  head .. tail   (pages exist if head <= tail)
 *     page k  plen[k]  plist[k ..]  closed[k]             made by its first append; refused once closed; its number is used once
 *
 * What must hold in every state:
 *   exclusion       at most one client believes that it holds                       assert in grant and at each renewal
 *   rising fences   each grant's fence is above all earlier ones                    assert in grant
 *   one effect      a lease is granted once, whatever is repeated                   assert in grant
 *   FIFO            who joined earlier and is there is served earlier               assert in grant
 *   no lost wake-up a client that waits is served once the lock is free             else SPIN finds a state in which it waits for ever
 *   the dead        who has been away for too long is dropped, not served           assert in serveNext
 *   bounded         nobody is left in the queue when all is over                    assert in Clock
 *
 * Each BUG_ below plants one fault, which SPIN must find: see run.ts.
 */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef FRONT
#define FRONT 1       /* places in the item */
#endif
#ifndef PLACES
#define PLACES 1      /* places in a page */
#endif
#ifndef PAGES
#define PAGES 4       /* page numbers, from 1 on */
#endif
#ifndef DEATHS
#define DEATHS 1      /* clients that die, anywhere between two writes */
#endif
#ifndef LOST
#define LOST 1        /* answers that are lost; the request is repeated */
#endif
#ifndef EXPIRIES
#define EXPIRIES 1    /* live holders that are paused until their lease is over */
#endif
#ifndef COPIES
#define COPIES 1      /* 1: a copy of the first client's request arrives at any time */
#endif

/* The lock's item. */
byte holder = 0;
bool expired = false;            /* past its end, grace included: only time sets it */
byte fence = 1;
byte front[FRONT];
byte flen = 0;
byte head = 1;
byte tail = 0;
bool ended[CLIENTS + 1];         /* the lease is over, and the item remembers it */

/* The pages. */
byte plen[PAGES];
byte plist[PAGES * PLACES];
bool closed[PAGES];

/* What clients know and do. */
bool believes[CLIENTS + 1];
bool dead[CLIENTS + 1];
bool absent[CLIENTS + 1];        /* dead for so long that its place in the queue no longer counts */
byte over = 0;
byte deaths = 0;
byte lost = 0;
byte expiries = 0;

/* What the checks need. */
byte joins = 0;
byte order[CLIENTS + 1];
byte served = 0;
byte highest = 1;
bool granted[CLIENTS + 1];

/*
 * The conditions that faults take away. Spelled out here, so that the protocol below reads as it is.
 */
#ifdef BUG_SAME_FENCE
#define FENCE_STEP 0
#else
#define FENCE_STEP 1
#endif
#ifdef BUG_SERVE_ABSENT
#define isAbsent(w) (false)
#else
#define isAbsent(w) (absent[w])
#endif
#ifdef BUG_FREE_WITH_PAGES
#define pagesStandInTheWay (false)
#else
#define pagesStandInTheWay (hasPages)
#endif
#ifdef BUG_STALE_PAGE
#define pageIsNeeded (true)
#else
#define pageIsNeeded (flen == FRONT || hasPages)
#endif
#ifdef BUG_MERGE_TWICE
#define isStillFirst(k) (true)
#else
#define isStillFirst(k) (head == k)
#endif
#ifdef BUG_MERGE_COPIES
#define isElsewhere(w) (false)
#else
#define isElsewhere(w) ((seen >> w) & 1)
#endif
#ifdef BUG_FORGET_ENDED
#define isOver(w) (ended[w] && me != 0)
#else
#define isOver(w) (ended[w])
#endif
#ifdef BUG_APPEND_TO_CLOSED
#define isClosed(k) (false)
#else
#define isClosed(k) (closed[k])
#endif
#ifdef BUG_LATE_RENEWAL
#define mayRenew(w) (true)
#else
#define mayRenew(w) (holder == w && !expired)
#endif
#ifdef BUG_ANYBODY_RELEASES
#define mayRelease(w) (holder != 0)
#else
#define mayRelease(w) (holder == w)
#endif
#ifdef BUG_NO_MARGIN
#define stopRelying(w) skip
#else
#define stopRelying(w) believes[w] = false
#endif

#define EVERYBODY (CLIENTS + COPIES)
#define hasPages (head <= tail)
#define isDue (holder != 0 && expired)

inline joined(w) { if :: order[w] == 0 -> joins++; order[w] = joins :: else -> skip fi }

inline grant(w) {
  d_step {
    fence = fence + FENCE_STEP;
    assert(fence > highest);               /* rising fences */
    highest = fence;
    assert(!granted[w]);                   /* one effect */
    granted[w] = true;
    assert(order[w] > served);             /* FIFO */
    served = order[w];
    x = 1;
    do :: x <= CLIENTS -> assert(x == w || !believes[x]); x++ :: else -> break od;   /* exclusion */
    x = 0;
    holder = w; expired = false
  }
}

inline onlyBeliever(w) { d_step { x = 1; do :: x <= CLIENTS -> assert(x == w || !believes[x]); x++ :: else -> break od; x = 0 } }

/* Is w in the front? In x: 1 or 0. */
inline inFront(w) { d_step { x = 0; i = 0; do :: i < flen -> if :: front[i] == w -> x = 1 :: else -> skip fi; i++ :: else -> break od; i = 0 } }

/* Is w anywhere: holding, over, in the front, or in a page that still counts? In x: 1 or 0. */
inline isKnown(w) {
  d_step {
    x = 0; i = 0;
    do :: i < flen -> if :: front[i] == w -> x = 1 :: else -> skip fi; i++ :: else -> break od;
    k = head;
    do
    :: k <= tail && k < PAGES ->
       i = 0;
       do :: i < plen[k] -> if :: plist[k * PLACES + i] == w -> x = 1 :: else -> skip fi; i++ :: else -> break od;
       k++
    :: else -> break
    od;
    i = 0; k = 0
  }
}

inline dropHead() { d_step { i = 0; do :: i + 1 < flen -> front[i] = front[i + 1]; i++ :: else -> break od; flen--; front[flen] = 0; i = 0 } }

/* The holder is gone: the first in the front that is there takes over in the same write. n = 1 where a page has to move up first. */
inline serveNext() {
  do
  /* Its place is gone: a late copy of its request would queue again. */
  :: flen > 0 && isAbsent(front[0]) -> order[front[0]] = 0; dropHead()
  :: flen > 0 && !isAbsent(front[0]) -> ended[holder] = true; next = front[0]; assert(!absent[next]); dropHead(); grant(next); next = 0; n = 0; break
  :: flen == 0 && !pagesStandInTheWay -> ended[holder] = true; holder = 0; expired = false; n = 0; break
  :: flen == 0 && pagesStandInTheWay -> n = 1; break
  od
}

/* Names a new last page where there is no other place. What was read may be old: the write looks again. */
inline nameNextPage(seen) {
  atomic {
    if
    :: tail == seen && seen + 1 < PAGES && pageIsNeeded -> tail = tail + 1
    :: else -> skip
    fi
  }
}

/* The leases that the lock knows: in seen, a bit for each. */
inline readKnown() {
  d_step {
    seen = 0; i = 1;
    do :: i <= CLIENTS -> if :: holder == i || ended[i] -> seen = seen | (1 << i) :: else -> skip fi; i++ :: else -> break od;
    i = 0;
    do :: i < flen -> seen = seen | (1 << front[i]); i++ :: else -> break od;
    i = 0
  }
}

/*
 * Moves the first page up: a read, and two writes. The first write closes the page, which shows what is in it. The second one merges. Its
 * condition is only that the page is still the first one, so what was read may be old by then. A process that finds the page closed
 * repeats the merge.
 */
inline moveUp() {
  atomic { n = 0; if :: hasPages && flen + PLACES <= FRONT -> k = head; readKnown(); n = 1 :: else -> skip fi };
  if
  :: n == 1 ->
     atomic { closed[k] = true; c = plen[k] };
     mayDie();
     atomic {
       if
       :: flen + c <= FRONT && isStillFirst(k) ->
          n = 0;
          do
          :: n < c ->
             next = plist[k * PLACES + n];
             if :: isElsewhere(next) -> skip :: else -> front[flen] = next; flen++ fi;
             n++
          :: else -> break
          od;
          next = 0; head = k + 1
       :: else -> skip
       fi;
       n = 0; k = 0; c = 0; seen = 0
     }
  :: else -> skip
  fi
}

/* Every process may end what time has ended: one that asks, waits or sweeps. */
inline sweep() {
  atomic { n = 0; if :: isDue -> serveNext() :: else -> skip fi };
  if :: n == 1 -> moveUp() :: else -> skip fi
}

inline mayDie() {
  if
  :: skip
  :: atomic { me != 0 && deaths < DEATHS -> deaths++; dead[me] = true; believes[me] = false; goto done }
  fi
}

/* The answer is lost and the request is repeated. */
inline mayLoseAnswer(again) { if :: skip :: atomic { me != 0 && lost < LOST -> lost++ } -> goto again fi }

/*
 * The acquire of lease w, up to its place or its grant. A copy (me = 0) does the same and is then forgotten: what it did stands, and
 * nobody hears of it.
 */
proctype Request(byte w; byte me) {
  byte h, t, f, o, n, k, c, i, x, next, seen;
  bool known;
ask:
  mayDie();
  atomic { h = head; t = tail; f = flen; o = holder; isKnown(w); known = (x == 1); x = 0 };
  if
  :: isOver(w) -> goto done
  :: !isOver(w) && (o == w || known) -> goto answered
  :: !isOver(w) && o != w && !known && o == 0 && f == 0 && h > t ->
     atomic {
       if
       :: holder == 0 && flen == 0 && !hasPages && !isOver(w) -> joined(w); grant(w)
       :: else -> goto ask
       fi
     };
     mayLoseAnswer(ask); goto answered
  :: !isOver(w) && o != w && !known && (o != 0 || f > 0) && h > t && f < FRONT ->
     atomic {
       inFront(w);
       if
       :: x == 0 && holder != 0 && holder != w && flen < FRONT && !hasPages && !isOver(w) -> joined(w); front[flen] = w; flen++
       :: else -> x = 0; goto ask
       fi;
       x = 0
     };
     mayLoseAnswer(ask); goto answered
  :: !isOver(w) && o != w && !known && h > t && f == FRONT -> nameNextPage(t); goto ask
  :: !isOver(w) && o != w && !known && h <= t ->
     atomic {
       if
       :: plen[t] < PLACES && !isClosed(t) -> joined(w); plist[t * PLACES + plen[t]] = w; plen[t]++; n = 1
       :: else -> n = 0
       fi
     };
     if
     :: n == 1 -> n = 0; mayLoseAnswer(ask); goto answered
     :: else -> mayDie(); nameNextPage(t); goto ask
     fi
  fi;

answered:
  /* What was read is of no use any more; forgotten, it makes fewer states. */
  atomic { h = 0; t = 0; f = 0; o = 0; known = false };
  if :: me == 0 -> goto done :: else -> skip fi;
  /* Waits until it is granted. A process that sees that the holder's time is over ends it. */
  do
  :: atomic { holder == me -> if :: !expired -> believes[me] = true :: else -> skip fi }; break
  :: ended[me] && holder != me -> goto done
  :: isDue && holder != me -> sweep()
  :: atomic { deaths < DEATHS && holder != me -> deaths++; dead[me] = true }; goto done
  od;

  /* Holds. A renewal counts only before the end of the lease. */
  mayDie();
  atomic {
    if
    :: mayRenew(me) -> believes[me] = true; onlyBeliever(me)
    :: else -> believes[me] = false
    fi
  };
  mayDie();
release:
  /* The client stops relying on it before it gives it back. */
  believes[me] = false;
  atomic { n = 0; if :: mayRelease(me) -> serveNext() :: else -> skip fi };
  mayDie();
  if :: n == 1 -> moveUp(); goto release :: else -> mayLoseAnswer(release) fi;
done:
  atomic { h = 0; t = 0; f = 0; o = 0; known = false; n = 0; k = 0; c = 0; seen = 0; over++ }
}

/* A client that died is absent some time later. */
proctype Absence(byte w) {
end:
  atomic { dead[w] -> absent[w] = true }
}

/* Time: leases run out. A holder that lives stops relying on its lease before it has run out. */
proctype Clock() {
  byte n, k, c, i, x, next, seen, me;
  do
  :: atomic {
       holder != 0 && !expired && (dead[holder] || expiries < EXPIRIES) ->
       if :: !dead[holder] -> expiries++ :: else -> skip fi;
       stopRelying(holder);
       expired = true
     }
  /* Nobody polls any more: the schedule finds what is left. */
  :: over == EVERYBODY && isDue -> sweep()
  :: over == EVERYBODY && holder == 0 -> break
  :: atomic { over == EVERYBODY && holder != 0 && !expired && !dead[holder] -> believes[holder] = false; expired = true }
  od;
done:
  assert(flen == 0 && !hasPages)
}

init {
  atomic {
    byte w = 1;
    do :: w <= CLIENTS -> run Request(w, w); run Absence(w); w++ :: else -> break od;
    if :: COPIES > 0 -> run Request(1, 0) :: else -> skip fi;
    run Clock()
  }
}
