/* The interface `vocabulary-pack` of daftar:plugin@0.1.0 for C, without a C library.
 *
 * These declarations follow the canonical ABI of the component model for 32 bits, by which the host reads a plugin's memory. A string is an
 * address and a number of bytes, a list an address and a number of items, an `option` and a `result` a byte and its value. These
 * are the C layouts of the structures below, which the assertions at the end verify.
 *
 * All data that a plugin returns may be constant: the host copies it and frees nothing.
 */
#ifndef DAFTAR_H
#define DAFTAR_H

typedef unsigned char u8;
typedef unsigned int u32;

typedef struct { const char *at; u32 bytes; } text;
typedef struct { const void *at; u32 items; } list;

/* A text or a list with a length known to the compiler. */
#define TEXT(literal) { (literal), sizeof(literal) - 1 }
#define LIST(array) { (array), sizeof(array) / sizeof((array)[0]) }
#define NOTHING { 0, 0 }

typedef struct { text language, value; } localized_text;
typedef struct { text key, value; } property;
typedef struct { u8 is_some; text value; } optional_text;
typedef struct { u8 is_some; u32 value; } optional_u32;

enum completeness { COMPLETENESS_FULL, COMPLETENESS_FRAGMENT, COMPLETENESS_EMPTY };
enum status { STATUS_ACTIVE, STATUS_INACTIVE };

typedef struct {
    text namespace_uri, name, domain, version, source, licence, attribution, default_language;
    list languages; /* of text */
    u8 hierarchical, completeness, open, system, extensible;
    u32 concept_count;
} vocabulary;

typedef struct {
    text code;
    u8 status, selectable;
    list parents; /* of text */
    optional_text replaced_by;
    list labels, definitions; /* of localized_text */
    list aliases;             /* of text */
    optional_text uri;
    list properties; /* of property */
} concept;

enum { OK, ERROR };

/* The result of `concepts`. */
enum page_error { PAGE_UNKNOWN_NAMESPACE, PAGE_INVALID_CURSOR };
typedef struct {
    u8 is_error;
    union {
        struct { list concepts; optional_u32 next; } page;
        u8 error;
    };
} page_answer;

/* The result of `resolve`. */
enum resolve_error { RESOLVE_UNKNOWN_NAMESPACE, RESOLVE_NOT_OPEN, RESOLVE_MALFORMED };
typedef struct {
    u8 is_error;
    union {
        concept found;
        struct { u8 kind; text message; } error;
    };
} resolve_answer;

/* The four functions of a pack, the allocator that the host calls, and the cleanup after a call. */
#define EXPORT(name) __attribute__((export_name(name)))
#define INTERFACE "daftar:plugin/vocabulary@0.1.0#"

EXPORT(INTERFACE "describe") const list *describe(void);
EXPORT(INTERFACE "concept-groups") const list *concept_groups(void);
EXPORT(INTERFACE "concepts")
const page_answer *concepts(const char *namespace_at, u32 namespace_bytes, u32 cursor, u32 limit);
EXPORT(INTERFACE "resolve")
const resolve_answer *resolve(const char *namespace_at, u32 namespace_bytes, const char *code_at, u32 code_bytes);
/* Called after the host has copied a result: the arguments of that call may be freed. */
EXPORT("cabi_post_" INTERFACE "concepts") void concepts_done(const page_answer *answer);
EXPORT("cabi_post_" INTERFACE "resolve") void resolve_done(const resolve_answer *answer);
EXPORT("cabi_realloc") void *cabi_realloc(void *old, u32 old_bytes, u32 align, u32 new_bytes);

/* The import of the host: writes a log line for the operator. `level` is 0 for trace to 4 for error. */
__attribute__((import_module("daftar:plugin/log@0.1.0"), import_name("write")))
void log_write(u32 level, const char *at, u32 bytes);

_Static_assert(sizeof(vocabulary) == 84, "vocabulary-description");
_Static_assert(sizeof(concept) == 76, "concept");
_Static_assert(sizeof(page_answer) == 20, "result<concept-page, page-error>");
_Static_assert(sizeof(resolve_answer) == 80, "result<concept, resolve-error>");
#endif
