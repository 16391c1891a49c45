// A whole program around one NEON kernel, for an emulator: no library of the
// other machine is needed. It launches the kernel as docs/Artifact.md says, on
// numbers that it makes up, and compares with the definition in doubles.
//
// The kernel is causal attention of HEADS heads, SQ queries, SKV keys, D wide,
// on elements of ELEMENT (float, __bf16 or _Float16), with lse.
#include <stddef.h>
#include <stdint.h>

#define HEADS 2
#define SQ 37
#define SKV 50
#define D 24

static ELEMENT query[HEADS][SQ][D], key[HEADS][SKV][D], value[HEADS][SKV][D];
static ELEMENT output[HEADS][SQ][D];
static float lse[HEADS][SQ];

//===----------------------------------------------------------------------===//
// What the code asks of the system, on one thread
//===----------------------------------------------------------------------===//

static char heap[1 << 24] __attribute__((aligned(64)));
static size_t used;
void *malloc(size_t bytes) {
  void *p = heap + used;
  used += (bytes + 63) / 64 * 64;
  return p;
}
void free(void *p) {}
void *memset(void *to, int byte, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    ((volatile char *)to)[i] = (char)byte;
  return to;
}
void *memcpy(void *to, const void *from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}

static double ln(double x) { // x = m 2^e, ln m = 2 artanh((m - 1) / (m + 1))
  int e = 0;
  if (!(x > 0 && x < 1e300)) // rows of a tile past the last: any value will do
    return 0;
  for (; x > 1.5; x /= 2)
    ++e;
  for (; x < 0.75; x *= 2)
    --e;
  double t = (x - 1) / (x + 1), power = t, sum = 0;
  for (int k = 1; k < 40; k += 2, power *= t * t)
    sum += power / k;
  return 2 * sum + e * 0.69314718055994530942;
}
static double exponential(double x) {
  double sum = 1, term = 1;
  for (int k = 1; k < 30; ++k)
    sum += term *= x / 16 / k;
  for (int k = 0; k < 4; ++k)
    sum *= sum;
  return sum;
}
float log2f(float x) { return (float)(ln(x) / 0.69314718055994530942); }

typedef void (*Task)(int32_t *, int32_t *, void *);
static uint64_t first, last;
static int isTaken;
int32_t __kmpc_global_thread_num(void *place) { return 0; }
void __kmpc_barrier(void *place, int32_t thread) {}
void __kmpc_fork_call_if(void *place, int32_t count, Task task, int32_t isOn,
                         void *arguments) {
  int32_t thread = 0, bound = 0;
  task(&thread, &bound, arguments);
}
void __kmpc_dispatch_init_8u(void *place, int32_t thread, int32_t schedule,
                             uint64_t lower, uint64_t upper, int64_t step,
                             int64_t chunk) {
  first = lower, last = upper, isTaken = 0;
}
int32_t __kmpc_dispatch_next_8u(void *place, int32_t thread, int32_t *isLast,
                                uint64_t *lower, uint64_t *upper,
                                int64_t *step) {
  if (isTaken || first > last)
    return 0;
  *lower = first, *upper = last, *step = 1, *isLast = isTaken = 1;
  return 1;
}

//===----------------------------------------------------------------------===//
// Launch and check
//===----------------------------------------------------------------------===//

typedef struct {
  void *allocated, *aligned;
  int64_t offset, sizes[4], strides[4];
} Rank4;
typedef struct {
  void *allocated, *aligned;
  int64_t offset, sizes[3], strides[3];
} Rank3;

extern void _mlir_ciface_attention(Rank4 *query, Rank4 *key, Rank4 *value,
                                   Rank4 *output, Rank3 *lse);

static Rank4 describe(void *data, int64_t length) {
  Rank4 d = {data, data, 0, {1, HEADS, length, D}, {HEADS * length * D}};
  d.strides[1] = length * D, d.strides[2] = D, d.strides[3] = 1;
  return d;
}

static uint32_t state = 1;
static void fill(ELEMENT *to, int count) {
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    to[i] = (ELEMENT)((float)(int32_t)state / 1073741824.0f);
  }
}

/// The largest difference from the definition, over all rows.
static double largestError(void) {
  double largest = 0;
  for (int h = 0; h < HEADS; ++h)
    for (int i = 0; i < SQ; ++i) {
      double weights[SKV], sum = 0;
      for (int j = 0; j <= i; ++j) {
        double score = 0;
        for (int d = 0; d < D; ++d)
          score += (double)(float)query[h][i][d] * (double)(float)key[h][j][d];
        sum += weights[j] = exponential(score * SCALE);
      }
      for (int d = 0; d <= D; ++d) {
        double expected = 0;
        for (int j = 0; j <= i && d < D; ++j)
          expected += weights[j] / sum * (double)(float)value[h][j][d];
        double difference = d < D ? (double)(float)output[h][i][d] - expected
                                  : (double)lse[h][i] - ln(sum);
        if (difference < 0)
          difference = -difference;
        // Written so that a NaN is the largest.
        if (!(difference <= largest))
          largest = difference;
      }
    }
  return largest;
}

static void print(const char *text, long length) {
  register long x8 __asm__("x8") = 64, x0 __asm__("x0") = 1;
  register const char *x1 __asm__("x1") = text;
  register long x2 __asm__("x2") = length;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
}
static void leave(long code) {
  register long x8 __asm__("x8") = 93, x0 __asm__("x0") = code;
  __asm__ volatile("svc 0" : : "r"(x8), "r"(x0));
}

void _start(void) {
  fill(&query[0][0][0], HEADS * SQ * D);
  fill(&key[0][0][0], HEADS * SKV * D);
  fill(&value[0][0][0], HEADS * SKV * D);
  memset(output, 0xFF, sizeof(output));
  memset(lse, 0xFF, sizeof(lse));
  Rank4 q = describe(query, SQ), k = describe(key, SKV),
        v = describe(value, SKV), o = describe(output, SQ);
  Rank3 l = {lse, lse, 0, {1, HEADS, SQ}, {HEADS * SQ, SQ, 1}};
  _mlir_ciface_attention(&q, &k, &v, &o, &l);
  double error = largestError();
  if (error <= BOUND)
    print("agrees\n", 7);
  else
    print("differs\n", 8);
  leave(!(error <= BOUND));
}
