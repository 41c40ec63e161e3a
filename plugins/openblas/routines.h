/* SPDX-License-Identifier: Apache-2.0
 *
 * LAPACK's Fortran routines in float32 and float64 under one prototype each. Matrices are column by column; numbers
 * come by address; the lengths of character arguments stand behind all others, as gfortran passes them.
 */
#ifndef TENON_OPENBLAS_ROUTINES_H
#define TENON_OPENBLAS_ROUTINES_H

#include <stddef.h>

typedef void ob_getrf_fn(const int *m, const int *n, void *a, const int *lda, int *pivots, int *info);
typedef void ob_getrs_fn(const char *trans, const int *n, const int *nrhs, const void *a, const int *lda,
                         const int *pivots, void *b, const int *ldb, int *info, size_t);
typedef void ob_potrf_fn(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
typedef void ob_trsm_fn(const char *side, const char *uplo, const char *trans, const char *diag, const int *m,
                        const int *n, const void *alpha, const void *a, const int *lda, void *b,
                        const int *ldb, size_t, size_t, size_t, size_t);
typedef void ob_geqrf_fn(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                         const int *lwork, int *info);
typedef void ob_orgqr_fn(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau,
                         void *work, const int *lwork, int *info);
typedef void ob_syevd_fn(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w,
                         void *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t,
                         size_t);
typedef void ob_gesdd_fn(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s,
                         void *u, const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork,
                         int *iwork, int *info, size_t);

/* A build without LAPACK has none of these: then they are NULL. */
#define OB_WEAK __attribute__((weak))
extern OB_WEAK ob_getrf_fn sgetrf_, dgetrf_;
extern OB_WEAK ob_getrs_fn sgetrs_, dgetrs_;
extern OB_WEAK ob_potrf_fn spotrf_, dpotrf_;
extern OB_WEAK ob_trsm_fn strsm_, dtrsm_;
extern OB_WEAK ob_geqrf_fn sgeqrf_, dgeqrf_;
extern OB_WEAK ob_orgqr_fn sorgqr_, dorgqr_;
extern OB_WEAK ob_syevd_fn ssyevd_, dsyevd_;
extern OB_WEAK ob_gesdd_fn sgesdd_, dgesdd_;

#endif
