/* ab_dtype_parse and ab_dtype_format. */
#include "check.h"

static DLDataType parse(const char *text) {
  DLDataType dtype;
  memset(&dtype, 0xA5, sizeof dtype);
  EXPECT(AB_OK, ab_dtype_parse(text, &dtype, &error));
  return dtype;
}

static void names(void) {
  static const struct {
    const char *name;
    int code, bits;
  } all[] = {
      {"bool", kDLBool, 8},
      {"int8", kDLInt, 8},
      {"int16", kDLInt, 16},
      {"int32", kDLInt, 32},
      {"int64", kDLInt, 64},
      {"uint8", kDLUInt, 8},
      {"uint16", kDLUInt, 16},
      {"uint32", kDLUInt, 32},
      {"uint64", kDLUInt, 64},
      {"float16", kDLFloat, 16},
      {"float32", kDLFloat, 32},
      {"float64", kDLFloat, 64},
      {"bfloat16", kDLBfloat, 16},
      {"complex64", kDLComplex, 64},
      {"complex128", kDLComplex, 128},
      {"int4", kDLInt, 4},
      {"uint4", kDLUInt, 4},
      {"float8_e3m4", kDLFloat8_e3m4, 8},
      {"float8_e4m3", kDLFloat8_e4m3, 8},
      {"float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8},
      {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
      {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8},
      {"float8_e5m2", kDLFloat8_e5m2, 8},
      {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8},
      {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8},
      {"float6_e2m3fn", kDLFloat6_e2m3fn, 6},
      {"float6_e3m2fn", kDLFloat6_e3m2fn, 6},
      {"float4_e2m1fn", kDLFloat4_e2m1fn, 4},
  };
  for (size_t i = 0; i < COUNT(all); i++) {
    DLDataType dtype = parse(all[i].name);
    char text[64];
    CHECK_AT(__FILE__, __LINE__, dtype.code == all[i].code && dtype.bits == all[i].bits && dtype.lanes == 1,
             "%s is {%d, %d, %d}", all[i].name, dtype.code, dtype.bits, dtype.lanes);
    CHECK_EQ(ab_dtype_format(&dtype, text, sizeof text), strlen(all[i].name));
    CHECK_AT(__FILE__, __LINE__, strcmp(text, all[i].name) == 0, "%s comes back as %s", all[i].name, text);
  }
}

static void other_spellings(void) {
  static const struct {
    const char *text;
    int code, bits;
  } all[] = {
      {"<f2", kDLFloat, 16},  {"<f4", kDLFloat, 32},    {"<f8", kDLFloat, 64},     {"<i2", kDLInt, 16},
      {"<i4", kDLInt, 32},    {"<i8", kDLInt, 64},      {"<u2", kDLUInt, 16},      {"<u4", kDLUInt, 32},
      {"<u8", kDLUInt, 64},   {"|i1", kDLInt, 8},       {"|u1", kDLUInt, 8},       {"|b1", kDLBool, 8},
      {"<c8", kDLComplex, 64}, {"<c16", kDLComplex, 128}, {"?", kDLBool, 8},       {"b", kDLInt, 8},
      {"B", kDLUInt, 8},      {"h", kDLInt, 16},        {"H", kDLUInt, 16},        {"i", kDLInt, 32},
      {"I", kDLUInt, 32},     {"q", kDLInt, 64},        {"Q", kDLUInt, 64},        {"e", kDLFloat, 16},
      {"f", kDLFloat, 32},    {"d", kDLFloat, 64},      {"Zf", kDLComplex, 64},    {"Zd", kDLComplex, 128},
      {"l", kDLInt, 8 * sizeof(long)},                  {"L", kDLUInt, 8 * sizeof(long)},
  };
  static const char *const refused[] = {">f4", ">i8", ">c16", "!f", ">d", "T{f:x:d:y:}", "|V8", "<U4", "|O", "|S3"};
  for (size_t i = 0; i < COUNT(all); i++) {
    DLDataType dtype = parse(all[i].text);
    CHECK_AT(__FILE__, __LINE__, dtype.code == all[i].code && dtype.bits == all[i].bits && dtype.lanes == 1,
             "%s is {%d, %d, %d}", all[i].text, dtype.code, dtype.bits, dtype.lanes);
  }
  for (size_t i = 0; i < COUNT(refused); i++) {
    DLDataType dtype;
    EXPECT(AB_E_UNSUPPORTED_DTYPE, ab_dtype_parse(refused[i], &dtype, &error));
    NAMES(refused[i]);
  }
}

/* Every lead byte has its continuation bytes. */
static int is_utf8(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  while (*p) {
    int more = *p < 0x80 ? 0 : *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : *p >= 0xC2 ? 1 : -1;
    if (more < 0) return 0;
    for (p++; more > 0; more--, p++)
      if ((*p & 0xC0) != 0x80) return 0;
  }
  return 1;
}

static void nonsense(void) {
  static const char *const all[] = {"",      " ",         "flaot32", "float",  "float33", "float32 ", "int999999999999",
                                    "Z",     "<",         "float8", "<f4<f4",  "int-8",    "uint0",
                                    "\xff\xfe", "%s%n%s%n", "bool8x"};
  char text[4096];
  DLDataType dtype;
  for (size_t i = 0; i < COUNT(all); i++) EXPECT(AB_E_UNSUPPORTED_DTYPE, ab_dtype_parse(all[i], &dtype, &error));

  /* A message is cut between characters, not inside one. */
  for (size_t shift = 0; shift < 3; shift++) {
    size_t length;
    memset(text, 'x', shift);
    for (length = shift; length + 4 <= sizeof text; length += 3) memcpy(text + length, "\xE2\x82\xAC", 3);
    text[length] = 0;
    EXPECT(AB_E_UNSUPPORTED_DTYPE, ab_dtype_parse(text, &dtype, &error));
    CHECK(is_utf8(error.message));
  }

  EXPECT(AB_E_INVALID_ARGUMENT, ab_dtype_parse(NULL, &dtype, &error));
  NAMES("text");
  EXPECT(AB_E_INVALID_ARGUMENT, ab_dtype_parse("float32", NULL, &error));
  NAMES("out");
  CHECK_EQ(ab_dtype_parse("float32", &dtype, NULL), AB_OK);
  CHECK_EQ(ab_dtype_parse("flaot32", &dtype, NULL), AB_E_UNSUPPORTED_DTYPE);
}

static void format(void) {
  static const char wanted[] = "float8_e4m3b11fnuz";
  DLDataType dtype = dt(kDLFloat8_e4m3b11fnuz, 8);
  char text[64];

  CHECK_EQ(ab_dtype_format(&dtype, NULL, 0), strlen(wanted));
  for (size_t capacity = 1; capacity <= sizeof wanted; capacity++) {
    memset(text, '#', sizeof text);
    CHECK_EQ(ab_dtype_format(&dtype, text, capacity), strlen(wanted));
    CHECK_EQ(strlen(text), capacity - 1);
    CHECK(memcmp(text, wanted, capacity - 1) == 0);
    CHECK_EQ(text[capacity], '#');
  }

  /* Anything has a spelling, known or not. */
  for (int code = 0; code < 256; code++) {
    for (int bits = 0; bits < 256; bits += 17) {
      for (int lanes = 0; lanes < 3; lanes++) {
        size_t length;
        dtype = dt(code, bits);
        dtype.lanes = (uint16_t)lanes;
        length = ab_dtype_format(&dtype, text, sizeof text);
        CHECK(length > 0 && length < sizeof text && strlen(text) == length);
      }
    }
  }
  CHECK_EQ(ab_dtype_format(NULL, text, sizeof text), 0);
  CHECK_EQ(ab_dtype_format(NULL, NULL, 0), 0);
}

int main(void) {
  names();
  other_spellings();
  nonsense();
  format();
  return 0;
}
