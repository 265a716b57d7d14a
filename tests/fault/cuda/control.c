/* Locks, failures on demand, and the log. The functions for tests are `fake_*`. */
#include "fake.h"

#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool in_callback;
static bool initialised, shut_down;
static pid_t home; /* who called cuInit */
static CUresult broken;

static struct {
  long left; /* calls before the one that fails; negative: none does */
  CUresult code;
  bool stays; /* every call after it fails too */
  char only[64];
  const char *fired;
} fault = {.left = -1};

static struct {
  bool on;
  char *text;
  size_t size, room;
} journal, complaints = {.on = true};

long live[OBJECTS];

long setting(const char *name, long otherwise) {
  const char *value = getenv(name);
  return value == NULL || *value == 0 ? otherwise : strtol(value, NULL, 10);
}

void stick(CUresult code) {
  if (broken == 0) broken = code;
}

void enter_callback(void) { in_callback = true; }

static void append(bool begin, const char *format, va_list list, void *to) {
  struct { bool on; char *text; size_t size, room; } *log = to;
  if (!log->on) return;
  char line[512];
  int length = vsnprintf(line, sizeof line - 1, format, list);
  if (length < 0) return;
  if ((size_t)length > sizeof line - 2) length = sizeof line - 2;
  if (log->size + length + 2 > log->room) {
    log->room = 2 * log->room + 4096;
    log->text = realloc(log->text, log->room);
    if (log->text == NULL) abort();
  }
  if (begin && log->size > 0) log->text[log->size++] = '\n';
  memcpy(log->text + log->size, line, length);
  log->size += length;
  log->text[log->size] = 0;
}

void note(const char *format, ...) {
  va_list list;
  va_start(list, format);
  append(false, format, list, &journal);
  va_end(list);
}

static void begin_line(const char *format, ...) {
  va_list list;
  va_start(list, format);
  append(true, format, list, &journal);
  va_end(list);
}

void complain(const char *format, ...) {
  va_list list;
  va_start(list, format);
  append(true, format, list, &complaints);
  va_end(list);
}

static bool fails(const char *name) {
  if (fault.left < 0 || (fault.only[0] != 0 && strcmp(fault.only, name) != 0)) return false;
  if (fault.left-- > 0) return false;
  fault.fired = name;
  if (fault.stays) broken = fault.code;
  return true;
}

CUresult enter(const char *name, bool may_fail) {
  if (in_callback) return NOT_PERMITTED;
  if (shut_down) return DEINITIALIZED;
  /* What is only a thread's own state works on devices that have broken, too. */
  bool own = strncmp(name, "cuCtxP", 6) == 0 || strcmp(name, "cuCtxGetCurrent") == 0 ||
             strcmp(name, "cuThreadExchangeStreamCaptureMode") == 0;
  bool first = strcmp(name, "cuInit") == 0, asks = strcmp(name, "cuDriverGetVersion") == 0;
  if (initialised && home != getpid()) return NOT_INITIALIZED;
  pthread_mutex_lock(&lock);
  begin_line("%s", name);
  CUresult code = 0;
  if (!initialised && !first && !asks)
    code = NOT_INITIALIZED;
  else if (may_fail && fails(name))
    code = fault.code;
  else if (!first && !asks && !own)
    code = broken;
  if (code) {
    note(" -> %d", code);
    pthread_mutex_unlock(&lock);
  }
  return code;
}

void leave(int *entered) {
  (void)entered;
  pthread_mutex_unlock(&lock);
}

CUresult cuInit(unsigned flags) {
  MAY_FAIL;
  long code = setting("FAKE_CUDA_INIT", 0);
  if (code) return (CUresult)code;
  if (flags != 0) return INVALID_VALUE;
  device_count = (int)setting("FAKE_CUDA_DEVICES", 2);
  if (device_count > MAX_DEVICES) return INVALID_VALUE;
  initialised = true;
  home = getpid();
  return 0;
}

CUresult cuDriverGetVersion(int *version) {
  MAY_FAIL;
  if (version == NULL) return INVALID_VALUE;
  *version = (int)setting("FAKE_CUDA_VERSION", 12080);
  return 0;
}

/* ---- for tests -------------------------------------------------------------------------------- */

/* The call after `left` others fails with a code; `stays`: and so do all after it. `only`: of this name, or
 * NULL. A negative `left`: none fails, and a device that had broken works again. */
void fake_fail(long left, int code, int stays, const char *only) {
  pthread_mutex_lock(&lock);
  fault.left = left, fault.code = code, fault.stays = stays, fault.fired = NULL;
  snprintf(fault.only, sizeof fault.only, "%s", only == NULL ? "" : only);
  if (left < 0) broken = 0;
  pthread_mutex_unlock(&lock);
}

/* The name of the call that failed; NULL: none has. */
const char *fake_failed(void) { return fault.fired; }

/* Starts a new log. */
void fake_log_start(void) {
  pthread_mutex_lock(&lock);
  journal.on = true, journal.size = 0;
  if (journal.text != NULL) journal.text[0] = 0;
  pthread_mutex_unlock(&lock);
}

/* A line for every call since, and for what ran; it ends here. */
const char *fake_log(void) {
  pthread_mutex_lock(&lock);
  journal.on = false;
  pthread_mutex_unlock(&lock);
  return journal.text == NULL ? "" : journal.text;
}

/* What was done wrong and no code says so; empty: nothing. */
const char *fake_complaints(void) {
  pthread_mutex_lock(&lock);
  check_red_zones();
  pthread_mutex_unlock(&lock);
  return complaints.text == NULL ? "" : complaints.text;
}

/* How many objects of a kind there are. */
long fake_live(int kind) {
  pthread_mutex_lock(&lock);
  long count = live[kind];
  pthread_mutex_unlock(&lock);
  return count;
}

/* As after the driver's own end, at the exit of the process: `down` 0 takes it back. */
void fake_shut_down(int down) { shut_down = down; }

__attribute__((destructor)) static void at_exit(void) { shut_down = true; }
