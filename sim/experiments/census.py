"""Names of the categories of census income (UCI KDD), as its code book census-income.names lists them.

Columns that are coded there by number, such as `detailed_industry_recode`, have these numbers as names.
"""

from __future__ import annotations

from collections.abc import Mapping

_LISTS: Mapping[str, str] = {
    "class_of_worker": (
        "Federal government|Local government|Never worked|Not in universe|Private|"
        "Self-employed-incorporated|Self-employed-not incorporated|State government|Without pay"
    ),
    "detailed_industry_recode": (
        "0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16|17|18|19|20|21|22|23|24|25|26|27|28|29|30|31|32|33|"
        "34|35|36|37|38|39|40|41|42|43|44|45|46|47|48|49|50|51"
    ),
    "detailed_occupation_recode": (
        "0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16|17|18|19|20|21|22|23|24|25|26|27|28|29|30|31|32|33|"
        "34|35|36|37|38|39|40|41|42|43|44|45|46"
    ),
    "education": (
        "10th grade|11th grade|12th grade no diploma|1st 2nd 3rd or 4th grade|5th or 6th grade|"
        "7th and 8th grade|9th grade|Associates degree-academic program|"
        "Associates degree-occup /vocational|Bachelors degree(BA AB BS)|Children|"
        "Doctorate degree(PhD EdD)|High school graduate|Less than 1st grade|"
        "Masters degree(MA MS MEng MEd MSW MBA)|Prof school degree (MD DDS DVM LLB JD)|"
        "Some college but no degree"
    ),
    "enroll_in_edu_inst_last_wk": "College or university|High school|Not in universe",
    "marital_stat": (
        "Divorced|Married-A F spouse present|Married-civilian spouse present|Married-spouse absent|"
        "Never married|Separated|Widowed"
    ),
    "major_industry_code": (
        "Agriculture|Armed Forces|Business and repair services|Communications|Construction|Education|"
        "Entertainment|Finance insurance and real estate|Forestry and fisheries|Hospital services|"
        "Manufacturing-durable goods|Manufacturing-nondurable goods|Medical except hospital|Mining|"
        "Not in universe or children|Other professional services|Personal services except private HH|"
        "Private household services|Public administration|Retail trade|Social services|"
        "Transportation|Utilities and sanitary services|Wholesale trade"
    ),
    "major_occupation_code": (
        "Adm support including clerical|Armed Forces|Executive admin and managerial|"
        "Farming forestry and fishing|Handlers equip cleaners etc|"
        "Machine operators assmblrs & inspctrs|Not in universe|Other service|"
        "Precision production craft & repair|Private household services|Professional specialty|"
        "Protective services|Sales|Technicians and related support|Transportation and material moving"
    ),
    "race": "Amer Indian Aleut or Eskimo|Asian or Pacific Islander|Black|Other|White",
    "hispanic_origin": (
        "All other|Central or South American|Chicano|Cuban|Do not know|Mexican (Mexicano)|"
        "Mexican-American|NA|Other Spanish|Puerto Rican"
    ),
    "sex": "Female|Male",
    "member_of_labor_union": "No|Not in universe|Yes",
    "reason_for_unemployment": (
        "Job leaver|Job loser - on layoff|New entrant|Not in universe|Other job loser|Re-entrant"
    ),
    "full_or_part_time_employment_stat": (
        "Children or Armed Forces|Full-time schedules|Not in labor force|"
        "PT for econ reasons usually FT|PT for econ reasons usually PT|"
        "PT for non-econ reasons usually FT|Unemployed full-time|Unemployed part- time"
    ),
    "tax_filer_stat": (
        "Head of household|Joint both 65+|Joint both under 65|Joint one under 65 & one 65+|Nonfiler|Single"
    ),
    "region_of_previous_residence": "Abroad|Midwest|Northeast|Not in universe|South|West",
    "state_of_previous_residence": (
        "?|Abroad|Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|"
        "District of Columbia|Florida|Georgia|Idaho|Illinois|Indiana|Iowa|Kansas|Kentucky|Louisiana|"
        "Maine|Maryland|Massachusetts|Michigan|Minnesota|Mississippi|Missouri|Montana|Nebraska|"
        "Nevada|New Hampshire|New Jersey|New Mexico|New York|North Carolina|North Dakota|"
        "Not in universe|Ohio|Oklahoma|Oregon|Pennsylvania|South Carolina|South Dakota|Tennessee|"
        "Texas|Utah|Vermont|Virginia|West Virginia|Wisconsin|Wyoming"
    ),
    "detailed_household_and_family_stat": (
        "Child 18+ ever marr Not in a subfamily|Child 18+ ever marr RP of subfamily|"
        "Child 18+ never marr Not in a subfamily|Child 18+ never marr RP of subfamily|"
        "Child 18+ spouse of subfamily RP|Child <18 ever marr RP of subfamily|"
        "Child <18 ever marr not in subfamily|Child <18 never marr RP of subfamily|"
        "Child <18 never marr not in subfamily|Child <18 spouse of subfamily RP|"
        "Child under 18 of RP of unrel subfamily|Grandchild 18+ ever marr RP of subfamily|"
        "Grandchild 18+ ever marr not in subfamily|Grandchild 18+ never marr RP of subfamily|"
        "Grandchild 18+ never marr not in subfamily|Grandchild 18+ spouse of subfamily RP|"
        "Grandchild <18 never marr RP of subfamily|Grandchild <18 never marr child of subfamily RP|"
        "Grandchild <18 never marr not in subfamily|Householder|In group quarters|"
        "Nonfamily householder|Other Rel 18+ ever marr RP of subfamily|"
        "Other Rel 18+ ever marr not in subfamily|Other Rel 18+ never marr RP of subfamily|"
        "Other Rel 18+ never marr not in subfamily|Other Rel 18+ spouse of subfamily RP|"
        "Other Rel <18 ever marr RP of subfamily|Other Rel <18 ever marr not in subfamily|"
        "Other Rel <18 never marr child of subfamily RP|Other Rel <18 never marr not in subfamily|"
        "Other Rel <18 never married RP of subfamily|Other Rel <18 spouse of subfamily RP|"
        "RP of unrelated subfamily|Secondary individual|Spouse of RP of unrelated subfamily|"
        "Spouse of householder"
    ),
    "detailed_household_summary_in_household": (
        "Child 18 or older|Child under 18 ever married|Child under 18 never married|"
        "Group Quarters- Secondary individual|Householder|Nonrelative of householder|"
        "Other relative of householder|Spouse of householder"
    ),
    "migration_code_change_in_msa": (
        "?|Abroad to MSA|Abroad to nonMSA|MSA to MSA|MSA to nonMSA|NonMSA to MSA|NonMSA to nonMSA|"
        "Nonmover|Not identifiable|Not in universe"
    ),
    "migration_code_change_in_reg": (
        "?|Abroad|Different county same state|Different division same region|Different region|"
        "Different state same division|Nonmover|Not in universe|Same county"
    ),
    "migration_code_move_within_reg": (
        "?|Abroad|Different county same state|Different state in Midwest|"
        "Different state in Northeast|Different state in South|Different state in West|Nonmover|"
        "Not in universe|Same county"
    ),
    "live_in_this_house_1_year_ago": "No|Not in universe under 1 year old|Yes",
    "migration_prev_res_in_sunbelt": "?|No|Not in universe|Yes",
    "family_members_under_18": (
        "Both parents present|Father only present|Mother only present|Neither parent present|Not in universe"
    ),
    "country_of_birth_father": (
        "?|Cambodia|Canada|China|Columbia|Cuba|Dominican-Republic|Ecuador|El-Salvador|England|France|"
        "Germany|Greece|Guatemala|Haiti|Holand-Netherlands|Honduras|Hong Kong|Hungary|India|Iran|"
        "Ireland|Italy|Jamaica|Japan|Laos|Mexico|Nicaragua|Outlying-U S (Guam USVI etc)|Panama|Peru|"
        "Philippines|Poland|Portugal|Puerto-Rico|Scotland|South Korea|Taiwan|Thailand|"
        "Trinadad&Tobago|United-States|Vietnam|Yugoslavia"
    ),
    "citizenship": (
        "Foreign born- Not a citizen of U S|Foreign born- U S citizen by naturalization|"
        "Native- Born abroad of American Parent(s)|Native- Born in Puerto Rico or U S Outlying|"
        "Native- Born in the United States"
    ),
    "own_business_or_self_employed": "0|1|2",
    "year": "94|95",
}
_SAME: Mapping[str, str] = {
    "country_of_birth_mother": "country_of_birth_father",
    "country_of_birth_self": "country_of_birth_father",
    "fill_inc_questionnaire_for_veterans_admin": "member_of_labor_union",
    "veterans_benefits": "own_business_or_self_employed",
}


def census_categories(column: str) -> tuple[str, ...]:
    """Names of a column's categories, in alphabetical or numerical order.

    Raises:
        KeyError: the column is a number.
    """
    return tuple(_LISTS[_SAME.get(column, column)].split("|"))
